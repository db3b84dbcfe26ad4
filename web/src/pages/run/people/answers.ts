// What an answer to a question can do: the conditions on the edges of the node that asks.
import type { DrawnEdge, DrawnNode, EdgePreview } from "../../../api/schema";

/** The condition of an edge, as far as its text says it. */
export type Condition =
  | { kind: "always" }
  | { kind: "never" }
  | { kind: "equals"; text: string }
  | { kind: "differs"; text: string }
  | { kind: "any"; words: readonly string[] }
  | { kind: "none"; words: readonly string[] }
  | { kind: "other" };

const COMPARISON = /^text\s*(==|!=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')$/;
const KEYWORDS = /^(any|none): (.+)$/;
/** What an edge does with a message comes after its condition. */
const PROCESSING = /^(via .*|extract|\S+, \d+ at a time)$/;

/** The condition in the text of an edge; empty if it has none. */
export function conditionText(edge: DrawnEdge): string {
  const parts = edge.text.split(" · ");
  if (edge.port && parts[0] === `port ${edge.port}`) parts.shift();
  const [first = ""] = parts;
  return PROCESSING.test(first) ? "" : first;
}

export function readCondition(text: string): Condition {
  if (text === "") return { kind: "always" };
  if (text === "never") return { kind: "never" };
  const compared = COMPARISON.exec(text);
  if (compared !== null) {
    const literal = unquote(compared[2] ?? "");
    if (literal === null) return { kind: "other" };
    return { kind: compared[1] === "==" ? "equals" : "differs", text: literal };
  }
  const keywords = KEYWORDS.exec(text);
  if (keywords !== null && !text.includes("; ")) {
    const words = (keywords[2] ?? "").split(", ").filter(Boolean);
    return { kind: keywords[1] === "any" ? "any" : "none", words };
  }
  return { kind: "other" };
}

function unquote(literal: string): string | null {
  const inner = literal.slice(1, -1);
  if (!inner.includes("\\")) return inner;
  try {
    return JSON.parse(`"${inner.replaceAll("\\'", "'").replaceAll(/(?<!\\)"/g, '\\"')}"`) as string;
  } catch {
    return null;
  }
}

/** Whether a condition holds for an answer; null if the page cannot know. The text on an edge does not say
 * whether keywords ignore case or match whole words, so only what holds in all cases is certain. */
export function holds(condition: Condition, answer: string): boolean | null {
  switch (condition.kind) {
    case "always":
      return true;
    case "never":
      return false;
    case "equals":
      return answer === condition.text;
    case "differs":
      return answer !== condition.text;
    case "any":
    case "none": {
      const found = contains(condition.words, answer);
      return found === null ? null : found === (condition.kind === "any");
    }
    case "other":
      return null;
  }
}

function contains(words: readonly string[], answer: string): boolean | null {
  if (words.includes(answer)) return true;
  const folded = answer.toLowerCase();
  return words.some((word) => folded.includes(word.toLowerCase())) ? null : false;
}

/** The edges that an answer can take. Ports other than the usual one are for failures and deadlines. */
export function answerEdges(edges: readonly DrawnEdge[], node: string): DrawnEdge[] {
  return edges.filter((edge) => edge.kind === "edge" && edge.source === node && edge.port === "");
}

/** What an edge does to its target. */
export type Effect = "leaves" | "round" | "counts" | "runs" | "keeps";

export interface Target {
  key: string;
  id: string;
  effect: Effect;
}

export function targetOf(edge: DrawnEdge, nodes: readonly DrawnNode[]): Target {
  const node = nodes.find((one) => one.key === edge.target);
  const id = node?.id ?? edge.target;
  return { key: edge.target, id, effect: effectOf(edge, node) };
}

function effectOf(edge: DrawnEdge, node: DrawnNode | undefined): Effect {
  if (!edge.triggers) return "keeps";
  if (edge.leaves) return "leaves";
  if (edge.back) return "round";
  return node?.guard ? "counts" : "runs";
}

export interface AnswerRule {
  /** The text of the condition; empty if every answer takes these edges. */
  condition: string;
  targets: readonly Target[];
}

/** The edges of a node by condition, in the order of the drawing; those that go on with the loop last. */
export function answerRules(edges: readonly DrawnEdge[], nodes: readonly DrawnNode[]): AnswerRule[] {
  const rules = new Map<string, Target[]>();
  for (const edge of edges) {
    const condition = conditionText(edge);
    const targets = rules.get(condition) ?? [];
    targets.push(targetOf(edge, nodes));
    rules.set(condition, targets);
  }
  const leaves = (targets: readonly Target[]) => targets.some((target) => target.effect === "leaves");
  return [...rules]
    .map(([condition, targets]) => ({ condition, targets }))
    .sort((a, b) => Number(leaves(b.targets)) - Number(leaves(a.targets)));
}

/** Whether an answer takes an edge; null if that is not known. */
export interface Route {
  edge: DrawnEdge;
  isTaken: boolean | null;
}

/** Where an answer goes, as far as the page can tell by itself. */
export function routesOf(edges: readonly DrawnEdge[], answer: string): Route[] {
  return edges.map((edge) => ({ edge, isTaken: holds(readCondition(conditionText(edge)), answer) }));
}

/** Where an answer goes, as the server has tried it. */
export function routesFrom(
  previews: readonly EdgePreview[],
  edges: readonly DrawnEdge[],
  nodes: readonly DrawnNode[],
): Route[] {
  return edges.map((edge) => {
    const { id } = targetOf(edge, nodes);
    const preview = previews.find((one) => one.target === id && one.text === edge.text);
    return { edge, isTaken: preview === undefined || preview.error !== null ? null : preview.fires };
  });
}

/** The ids of nodes that an answer triggers; null if that is not certain. */
export function triggeredBy(routes: readonly Route[], nodes: readonly DrawnNode[]): string[] | null {
  if (routes.some((route) => route.isTaken === null)) return null;
  const targets = routes
    .filter((route) => route.isTaken && route.edge.triggers)
    .map((route) => targetOf(route.edge, nodes));
  // A guard only counts: the person writes to the nodes that read the answer.
  const readers = targets.filter((target) => target.effect !== "counts");
  return [...new Set((readers.length ? readers : targets).map((target) => target.id))];
}

export interface QuickAnswer {
  text: string;
  /** Where it goes; null for an earlier answer that may go anywhere. */
  target: string | null;
}

const MOST_QUICK_ANSWERS = 6;
/** Longer ones do not fit on a button. */
const LONGEST_EARLIER_ANSWER = 60;

/** Answers that conditions name, and then earlier ones, the newest first. */
export function quickAnswers(
  edges: readonly DrawnEdge[],
  nodes: readonly DrawnNode[],
  earlier: readonly string[],
): QuickAnswer[] {
  const found = new Map<string, QuickAnswer>();
  for (const edge of edges) {
    if (!edge.triggers) continue;
    const condition = readCondition(conditionText(edge));
    const texts = condition.kind === "equals" ? [condition.text] : condition.kind === "any" ? condition.words : [];
    for (const text of texts) {
      if (text && !found.has(text)) found.set(text, { text, target: targetOf(edge, nodes).id });
    }
  }
  for (const text of earlier.toReversed()) {
    if (text && text.length <= LONGEST_EARLIER_ANSWER && !found.has(text)) found.set(text, { text, target: null });
  }
  return [...found.values()].slice(0, MOST_QUICK_ANSWERS);
}

/** Structured fields from the text of the data editor: none, an object, or an error. */
export function parseData(text: string): { data: Record<string, unknown> | null; isValid: boolean } {
  if (text.trim() === "") return { data: null, isValid: true };
  try {
    const value: unknown = JSON.parse(text);
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    return isObject ? { data: value as Record<string, unknown>, isValid: true } : { data: null, isValid: false };
  } catch {
    return { data: null, isValid: false };
  }
}

/** A selected passage as a quotation before what is already written. */
export function withQuotation(answer: string, passage: string): string {
  const quoted = passage
    .trim()
    .split("\n")
    .map((line) => `> ${line}`)
    .join("\n");
  return answer.trim() ? `${answer.trimEnd()}\n\n${quoted}\n` : `${quoted}\n`;
}
