import { describe, expect, it } from "vitest";
import type { RunState, WaitingMessage } from "../../../api/schema";
import { sceneOf } from "../../../graph/scene";
import { node, plan, proof, region } from "../../../graph/testing";
import { proofText } from "../../../graph/texts";
import { readyOf, stopsOf, waitingOf } from "./debugging";
import { messages } from "./messages";
import { captionOf, dotsOf, NOTHING, roundText, spokenOf } from "./texts";

const texts = messages.en;
const scene = sceneOf(plan(), () => "");
const coder = scene.loops.get("Coder[]")!;

describe("texts", () => {
  it("of a loop say its round, its bound and its proof", () => {
    expect(roundText(coder, { round: 4, isOpen: true }, texts)).toBe("round 4 of ≤ 10");
    expect(roundText(coder, { round: 0, isOpen: false }, texts)).toBe("≤ 10 rounds");
    expect(proofText(coder, texts)).toEqual({ text: "30 in all, by Gate", isProved: true });
    expect(proofText(scene.loops.get("Planner[]")!, texts).text).toBe("proved, by Review");
  });

  it("of a loop without a proof warn", () => {
    const loop = (most: number | null, more = {}) => ({ region: region("L[]", "L"), most, proof: proof("L", most, more) });
    expect(proofText(loop(null), texts)).toEqual({ text: "not proved, only its cap of 50", isProved: false });
    const clock = { bounded_by: [{ guard: "Timer", limit: "20 seconds" }] };
    expect(proofText(loop(null, clock), texts)).toEqual({ text: "at most 20 seconds, by Timer", isProved: true });
    expect(roundText(loop(null), { round: 7, isOpen: true }, texts)).toBe("round 7");
  });

  it("of a node say what it does", () => {
    const gate = scene.byKey.get("Gate")!;
    expect(captionOf(gate, "idle", NOTHING, undefined, texts)).toBe("loop, 10 rounds");
    expect(captionOf(gate, "idle", NOTHING, undefined, messages.zh)).toBe("loop，10 轮");
    expect(captionOf(gate, "idle", NOTHING, "next", texts)).toBe("next to run");
    expect(captionOf(gate, "completed", { ...NOTHING, count: 1, most: 3 }, undefined, texts)).toBe("loop, 1 of 3");
    expect(captionOf(node("A", 0, 0), "running", { ...NOTHING, tool: "run_tests" }, undefined, texts)).toBe("calls run_tests");
    expect(captionOf(node("A", 0, 0), "waiting", NOTHING, undefined, texts)).toBe("answer needed");
  });

  it("for a screen reader are complete", () => {
    const view = { status: "running" as const, runs: 12, address: "Coder[3]/Coder", isCurrent: true };
    expect(spokenOf(scene.byKey.get("Coder")!, view, undefined, undefined, 0, texts)).toBe("Coder, agent, running, 12 runs");
    expect(spokenOf(scene.byKey.get("Coder")!, { ...view, runs: 1 }, "some", "held", 2, texts)).toBe(
      "Coder, agent, running, 1 run, ready, held, 2 messages wait, breakpoint with a condition",
    );
  });

  it("have a dot for each round", () => {
    expect(dotsOf(4, { round: 2, isOpen: true })).toEqual(["done", "current", "possible", "possible"]);
    expect(dotsOf(3, { round: 2, isOpen: false })).toEqual(["done", "done", "possible"]);
  });
});

describe("the debugger", () => {
  it("finds the nodes of breakpoints", () => {
    const at = (...found: string[]) =>
      Object.fromEntries(stopsOf(scene, found.map((text) => ({ text, hits: 0, problem: "" }))));
    expect(at("Gate")).toEqual({ Gate: "node" });
    expect(at("Coder[4]", "Planner[2]/Review")).toEqual({ Coder: "some", Review: "some" });
    expect(at('cel: node == "Gate" && round >= 3')).toEqual({ Gate: "some" });
    expect(at("cel: round > 3")).toEqual({});
    expect(at("Gate", "Coder[2]/Gate")).toEqual({ Gate: "node" });
    expect(at("Say")).toEqual({ "Each/Say": "node" });
  });

  it("counts messages on the lines they came over", () => {
    const message = (source: string) => ({ source }) as WaitingMessage;
    const queues = [
      { address: "Planner[1].Coder[2]/Gate", node_id: "Gate", messages: [message("Coder"), message("Coder")] },
      { address: "Planner[1]/Planner", node_id: "Planner", messages: [message("input")] },
    ];
    const waiting = waitingOf(scene, queues, new Set(["Each"]));
    expect([...waiting.lines]).toEqual([["edge 1", 2]]);
    expect([...waiting.nodes]).toEqual([["Planner", 1]]);
  });

  it("says what runs next", () => {
    const state = { ready: [{ address: "Planner[1].Coder[2]/Gate" }, { address: "Final" }] } as RunState;
    expect([...readyOf(state, new Set())]).toEqual([
      ["Gate", "next"],
      ["Final", "held"],
    ]);
  });
});
