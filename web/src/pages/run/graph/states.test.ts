import { beforeEach, describe, expect, it } from "vitest";
import { sceneOf, type Line } from "../../../graph/scene";
import { began, done, event, plan, round, roundEnd, runs } from "../../../graph/testing";
import { RunModel } from "../../../live/run_model";
import { follows, isLit, lockedLoop, loopNow, nodeNow, stateAt } from "./states";

const scene = sceneOf(plan(), () => "");
const line = (source: string, target: string): Line => {
  const found = scene.lines.find((one) => one.drawn.source === source && one.drawn.target === target);
  if (found === undefined) throw new Error(`no line from ${source} to ${target}`);
  return found;
};

/** Two rounds of Coder in the first round of Planner, and the beginning of its second round. */
function events() {
  return [
    event(0, "run_started", ""),
    round(10, "Planner[1]"),
    runs(10, "Planner[1]/Planner"),
    done(20, "Planner[1]/Planner"),
    round(20, "Planner[1].Coder[1]"),
    runs(20, "Planner[1].Coder[1]/Coder"),
    done(30, "Planner[1].Coder[1]/Coder"),
    runs(30, "Planner[1].Coder[1]/Gate"),
    done(40, "Planner[1].Coder[1]/Gate"),
    roundEnd(40, "Planner[1].Coder[1]"),
    // In the millisecond in which round 1 ends.
    round(40, "Planner[1].Coder[2]"),
    runs(40, "Planner[1].Coder[2]/Coder"),
    done(50, "Planner[1].Coder[2]/Coder", "failed"),
    runs(50, "Planner[1].Coder[2]/Gate"),
    done(60, "Planner[1].Coder[2]/Gate"),
    roundEnd(60, "Planner[1].Coder[2]"),
    event(60, "loop_exit", "Planner[1].Coder[2]", { reason: "score", rounds: 2 }),
    runs(60, "Planner[1]/Review"),
    done(900, "Planner[1]/Review"),
    roundEnd(900, "Planner[1]"),
    round(900, "Planner[2]"),
    runs(900, "Planner[2]/Planner"),
  ];
}

describe("states", () => {
  let model: RunModel;
  beforeEach(() => {
    began();
    model = new RunModel(new Set(["Each"]));
    expect(model.apply(events())).toBe(true);
  });

  it("are current only in the current rounds", () => {
    expect(nodeNow(model, "Planner")).toMatchObject({ status: "running", runs: 2, isCurrent: true });
    expect(nodeNow(model, "Gate")).toMatchObject({ status: "completed", runs: 2, isCurrent: false });
    expect(nodeNow(model, "Final")).toMatchObject({ status: "idle", runs: 0, address: "" });
    model.apply([done(950, "Planner[2]/Planner")]);
    expect(nodeNow(model, "Planner")).toMatchObject({ status: "completed", isCurrent: true });
  });

  it("of loops are those of their newest entry", () => {
    expect(loopNow(model, scene, "Planner[]")).toEqual({ round: 2, isOpen: true });
    expect(loopNow(model, scene, "Coder[]")).toEqual({ round: 2, isOpen: false });
    expect(loopNow(model, scene, "Each/")).toEqual({ round: 0, isOpen: false });
    model.apply([done(950, "Planner[2]/Planner"), round(960, "Planner[2].Coder[1]"), round(960, "Planner[2].Each[3]")]);
    expect(loopNow(model, scene, "Coder[]")).toEqual({ round: 1, isOpen: true });
    expect(loopNow(model, scene, "Each/")).toEqual({ round: 3, isOpen: true });
  });

  it("at the end of a round leave out what began in the same millisecond after it", () => {
    const past = stateAt(model, scene, model.rounds.get("Planner[1].Coder[1]")!);
    expect(past.nodes.get("Coder")).toEqual({ status: "completed", runs: 1, address: "Planner[1].Coder[1]/Coder", isCurrent: true });
    expect(past.nodes.get("Gate")).toMatchObject({ status: "completed", runs: 1 });
    expect(past.nodes.has("Review")).toBe(false);
    expect(past.loops.get("Coder[]")).toEqual({ round: 1, isOpen: true });
    expect(past.loops.get("Planner[]")).toEqual({ round: 1, isOpen: true });
  });

  it("at the end of a round keep failures, and addresses of the rounds around it", () => {
    const past = stateAt(model, scene, model.rounds.get("Planner[1].Coder[2]")!);
    expect(past.nodes.get("Coder")).toMatchObject({ status: "failed", runs: 2, address: "Planner[1].Coder[2]/Coder" });
    expect(past.nodes.get("Planner")).toMatchObject({ address: "Planner[1]/Planner", runs: 1, isCurrent: true });
  });

  it("at the end of an outer round show loops inside as they were left", () => {
    const past = stateAt(model, scene, model.rounds.get("Planner[1]")!);
    expect(past.nodes.get("Review")).toMatchObject({ status: "completed", runs: 1 });
    expect(past.nodes.get("Planner")).toMatchObject({ runs: 1, status: "completed" });
    expect(past.loops.get("Coder[]")).toEqual({ round: 2, isOpen: false });
    expect(past.loops.get("Planner[]")).toEqual({ round: 1, isOpen: true });
  });

  it("of a node that still ran at that moment say so", () => {
    model.apply([round(960, "Planner[2].Coder[1]"), runs(960, "Planner[2].Coder[1]/Coder"), done(970, "Planner[2].Coder[1]/Coder")]);
    model.apply([done(990, "Planner[2]/Planner")]);
    const past = stateAt(model, scene, model.rounds.get("Planner[2].Coder[1]")!);
    expect(past.nodes.get("Planner")).toMatchObject({ status: "running", runs: 2 });
  });
});

describe("a line is lit", () => {
  const lit = (count: number) => {
    began();
    const model = new RunModel();
    model.apply(events().slice(0, count));
    return scene.lines.filter((one) => isLit(model, one)).map((one) => `${one.drawn.source} ${one.drawn.target}`);
  };

  it("while its target runs because of it", () => {
    expect(lit(3)).toEqual([]);
    expect(lit(6)).toEqual(["Planner Coder"]);
    expect(lit(8)).toEqual(["Coder Gate"]);
    expect(lit(9)).toEqual([]);
  });

  it("for the next round, and out of a loop", () => {
    expect(lit(12)).toEqual(["Gate Coder"]);
    expect(lit(18)).toEqual(["Gate Review"]);
    expect(lit(22)).toEqual(["Review Planner"]);
  });

  it("not without a trigger", () => {
    began();
    const model = new RunModel();
    model.apply([...events(), done(950, "Planner[2]/Planner"), runs(960, "Final")]);
    expect(isLit(model, line("Planner", "Final"))).toBe(false);
  });
});

describe("an execution follows another", () => {
  it("in the same rounds, or in the next one over a back edge", () => {
    expect(follows("A[1]/X", "A[1]/Y", false)).toBe(true);
    expect(follows("A[1]/X", "A[2]/Y", false)).toBe(false);
    expect(follows("A[1]/X", "A[2]/A", true)).toBe(true);
    expect(follows("A[1]/X", "A[3]/A", true)).toBe(false);
    expect(follows("A[1]/X", "A[1]/A", true)).toBe(false);
    expect(follows("A[1].B[9]/X", "A[2]/A", true)).toBe(true);
    expect(follows("A[1]/X", "A[1].B[1]/B", false)).toBe(true);
    expect(follows("A[1]/X", "A[1].B[2]/B", false)).toBe(false);
    expect(follows("A[1]/X", "C[1]/Y", false)).toBe(false);
    expect(follows("A[1]/X", "A[2].B[1]/B", true)).toBe(false);
  });
});

describe("a lock", () => {
  it("holds the innermost loop of its address, until it is opened", () => {
    began();
    const model = new RunModel();
    model.apply(events().slice(0, 15));
    began(15);
    expect(lockedLoop(model, scene)).toBe("");
    model.apply([
      event(70, "breaker_tripped", "Planner[1].Coder[2]", { trigger: "dead_loop" }),
      event(70, "run_state_change", "", { status: "suspended_locked" }),
    ]);
    expect(lockedLoop(model, scene)).toBe("Coder[]");
    model.apply([event(80, "run_state_change", "", { status: "running" })]);
    expect(lockedLoop(model, scene)).toBe("");
  });
});
