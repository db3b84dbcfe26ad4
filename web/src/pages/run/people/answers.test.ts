import { describe, expect, it } from "vitest";
import type { DrawnEdge, DrawnNode, EdgePreview } from "../../../api/schema";
import {
  answerEdges,
  answerRules,
  conditionText,
  holds,
  parseData,
  quickAnswers,
  readCondition,
  routesFrom,
  routesOf,
  triggeredBy,
  withQuotation,
} from "./answers";

function edge(target: string, text: string, more: Partial<DrawnEdge> = {}): DrawnEdge {
  return {
    source: "Editor",
    target,
    kind: "edge",
    back: false,
    leaves: false,
    triggers: true,
    port: "",
    explicit: false,
    text,
    label: null,
    route: [],
    problems: [],
    ...more,
  };
}

function node(id: string, guard = false): DrawnNode {
  const box = { x: 0, y: 0, width: 1, height: 1 };
  const flags = { start: false, end: false, missing: false };
  return { key: id, id, type: "agent", guard, label: id, caption: "", box, parent: "", region: "", inside: null, problems: [], ...flags };
}

const edges = [
  edge("Writer", 'text != "OK"', { back: true }),
  edge("Final", 'text == "OK"', { leaves: true }),
  edge("Patience", 'text != "OK"'),
  edge("Fallback", "port timeout", { port: "timeout", explicit: true }),
  edge("Archive", "", { triggers: false }),
];
const nodes = [node("Writer"), node("Final"), node("Patience", true), node("Fallback"), node("Archive")];
const own = answerEdges(edges, "Editor");

describe("conditions", () => {
  it("are read from the text of an edge", () => {
    expect(readCondition('text == "say \\"no\\""')).toEqual({ kind: "equals", text: 'say "no"' });
    expect(readCondition("text != 'OK'")).toEqual({ kind: "differs", text: "OK" });
    expect(readCondition("any: SHIP, DONE")).toEqual({ kind: "any", words: ["SHIP", "DONE"] });
    expect(readCondition("none: SHIP; any: DONE")).toEqual({ kind: "other" });
    expect(readCondition("size(text) > 3")).toEqual({ kind: "other" });
    expect(readCondition('text == "a" && round > 2')).toEqual({ kind: "other" });
  });

  it("come without ports and processing", () => {
    expect(conditionText(edge("A", "port exit · any: SHIP · via shop:clean", { port: "exit" }))).toBe("any: SHIP");
    expect(conditionText(edge("A", "via shop:clean"))).toBe("");
    expect(conditionText(edge("A", "map, 4 at a time"))).toBe("");
  });

  it("are decided only where that is certain", () => {
    const any = readCondition("any: SHIP");
    expect(holds(any, "SHIP")).toBe(true);
    expect(holds(any, "not yet")).toBe(false);
    expect(holds(any, "we should ship it")).toBeNull();
    expect(holds(readCondition("none: SHIP"), "SHIP")).toBe(false);
    expect(holds(readCondition("size(text) > 3"), "tea")).toBeNull();
  });
});

describe("answers", () => {
  it("have the edges of the usual port", () => {
    expect(own.map((one) => one.target)).toEqual(["Writer", "Final", "Patience", "Archive"]);
  });

  it("lead to the nodes that read them", () => {
    const targets = (answer: string) => triggeredBy(routesOf(own, answer), nodes);
    expect(targets("OK")).toEqual(["Final"]);
    expect(targets("Say when.")).toEqual(["Writer"]);
    expect(triggeredBy(routesOf([edge("A", "size(text) > 3")], "tea"), nodes)).toBeNull();
  });

  it("go where the server says", () => {
    const tried = (target: string, text: string, fires: boolean, error: string | null = null): EdgePreview => {
      return { source: "Editor", target, text, fires, error, leaves: false, back: false, triggers: true };
    };
    const unclear = [edge("Writer", "size(text) > 3"), edge("Final", "size(text) <= 3"), edge("Log", "shop:good")];
    const routes = routesFrom(
      [tried("Final", "size(text) <= 3", false), tried("Writer", "size(text) > 3", true), tried("Log", "shop:good", false, "a function")],
      unclear,
      nodes,
    );
    expect(routes.map((route) => route.isTaken)).toEqual([true, false, null]);
    expect(triggeredBy(routes.slice(0, 2), nodes)).toEqual(["Writer"]);
  });

  it("are grouped by condition, those that leave the loop first", () => {
    const rules = answerRules(own, nodes);
    expect(rules.map((rule) => rule.condition)).toEqual(['text == "OK"', 'text != "OK"', ""]);
    expect(rules[1]?.targets.map((target) => [target.id, target.effect])).toEqual([
      ["Writer", "round"],
      ["Patience", "counts"],
    ]);
    expect(rules[2]?.targets).toEqual([{ key: "Archive", id: "Archive", effect: "keeps" }]);
  });

  it("are offered from conditions and from earlier rounds", () => {
    const long = "x".repeat(61);
    expect(quickAnswers(own, nodes, ["Say when.", "OK", long, "Shorter."])).toEqual([
      { text: "OK", target: "Final" },
      { text: "Shorter.", target: null },
      { text: "Say when.", target: null },
    ]);
  });

  it("have structured fields only as an object", () => {
    expect(parseData("")).toEqual({ data: null, isValid: true });
    expect(parseData('{"a": 1}')).toEqual({ data: { a: 1 }, isValid: true });
    expect(parseData("[1]").isValid).toBe(false);
    expect(parseData("{").isValid).toBe(false);
  });

  it("quote a passage", () => {
    expect(withQuotation("", " on Sunday\nat four ")).toBe("> on Sunday\n> at four\n");
    expect(withQuotation("Yes.\n", "tea")).toBe("Yes.\n\n> tea\n");
  });
});
