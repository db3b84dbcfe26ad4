// The decision about a tool call: its arguments as fields or as JSON, what was changed, and what is sent.
import type { AnswerBody } from "../../../api/schema";

export type FieldKind = "line" | "text" | "number" | "boolean" | "json";

/** An argument as it is edited. The text of a boolean is `true` or `false`. */
export interface ArgumentField {
  name: string;
  kind: FieldKind;
  text: string;
}

/** `asked` makes the call as the model wrote it, whatever was edited; `edited` makes the edited one. */
export type Decision = "asked" | "edited" | "reject";

export interface ApprovalDraft {
  mode: "fields" | "json";
  fields: readonly ArgumentField[];
  json: string;
  decision: Decision;
  reason: string;
  note: string;
}

export type Arguments = Record<string, unknown>;

/** Arguments are an object for every tool; a broken reply of a model may have had something else. */
export function argumentsOf(tool: { arguments?: unknown } | null): Arguments {
  const given = tool?.arguments;
  return given !== null && typeof given === "object" && !Array.isArray(given) ? (given as Arguments) : {};
}

const LONGEST_LINE = 72;

export function kindOf(value: unknown): FieldKind {
  if (typeof value === "string") return value.includes("\n") || value.length > LONGEST_LINE ? "text" : "line";
  if (typeof value === "number") return "number";
  return typeof value === "boolean" ? "boolean" : "json";
}

/** A value as the text of its field. */
export function fieldText(value: unknown): string {
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, isNested(value) ? 2 : undefined) ?? "null";
}

function isNested(value: unknown): boolean {
  return value !== null && typeof value === "object" && Object.keys(value).length > 0;
}

export function fieldsOf(given: Arguments): ArgumentField[] {
  return Object.entries(given).map(([name, value]) => ({ name, kind: kindOf(value), text: fieldText(value) }));
}

export function draftOf(given: Arguments): ApprovalDraft {
  return { mode: "fields", fields: fieldsOf(given), json: asJson(given), decision: "asked", reason: "", note: "" };
}

export function asJson(given: Arguments): string {
  return JSON.stringify(given, null, 2);
}

export type FieldProblem = "number" | "json" | "object";

export interface ReadArguments {
  arguments: Arguments;
  /** The names of arguments that were changed, added or removed. */
  changed: readonly string[];
  /** By name; that of the JSON text has the name "". */
  problems: Readonly<Record<string, FieldProblem>>;
}

/** The arguments that a draft describes, and how they differ from those that the model gave. */
export function readArguments(draft: ApprovalDraft, before: Arguments): ReadArguments {
  const problems: Record<string, FieldProblem> = {};
  const values: Arguments = {};
  if (draft.mode === "json") {
    const parsed = parseJson(draft.json);
    if (parsed === undefined) problems[""] = "json";
    else if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) problems[""] = "object";
    else Object.assign(values, parsed);
    if (problems[""]) return { arguments: before, changed: [], problems };
  } else {
    for (const field of draft.fields) {
      const value = readField(field);
      if (value.problem) problems[field.name] = value.problem;
      // The field shows what is wrong; until then, the value of the model stands in.
      values[field.name] = value.problem ? before[field.name] : value.value;
    }
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(values)])];
  const changed = names.filter((name) => name in problems || !isSame(before[name], values[name]));
  return { arguments: values, changed, problems };
}

function readField(field: ArgumentField): { value?: unknown; problem?: FieldProblem } {
  if (field.kind === "line" || field.kind === "text") return { value: field.text };
  const value = parseJson(field.text);
  if (field.kind === "number") return typeof value === "number" ? { value } : { problem: "number" };
  return value === undefined ? { problem: "json" } : { value };
}

/** Undefined if it is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether two values are the same JSON; the order of members does not count. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => name in b && isSame((a as Arguments)[name], (b as Arguments)[name]));
}

/** The same draft in the other view; null if its JSON cannot be shown as fields. */
export function inMode(draft: ApprovalDraft, mode: ApprovalDraft["mode"], before: Arguments): ApprovalDraft | null {
  if (mode === draft.mode) return draft;
  const read = readArguments(draft, before);
  if (mode === "json") {
    // What does not parse stays in its field: the JSON has the last value that did.
    return Object.keys(read.problems).length ? null : { ...draft, mode, json: asJson(read.arguments) };
  }
  if (read.problems[""]) return null;
  // A text that was short and is now long keeps its control: the focus would be lost.
  const known = new Map(fieldsOf(before).map((field) => [field.name, field.kind]));
  const fields = fieldsOf(read.arguments).map((field) => {
    const kind = known.get(field.name);
    const areTexts = (field.kind === "line" || field.kind === "text") && (kind === "line" || kind === "text");
    return areTexts && kind === "text" ? { ...field, kind } : field;
  });
  return { ...draft, mode, fields };
}

/** The answer that carries a decision out (docs/tools.md, "Approval"). The text is for people who read the
 * history, and the data is what counts. */
export function approvalBody(draft: ApprovalDraft, read: ReadArguments, at: string): AnswerBody {
  if (draft.decision === "reject") {
    const reason = draft.reason.trim();
    return { at, text: `reject: ${reason}`, data: { approve: false, reason } };
  }
  const note = draft.note.trim();
  const isChanged = draft.decision === "edited" && read.changed.length > 0;
  if (!note && !isChanged) return { at, text: "approve" };
  const changed = isChanged ? { arguments: read.arguments } : {};
  return { at, text: "approve", data: { approve: true, ...changed, ...(note ? { reason: note } : {}) } };
}

/** The argument that an error of the server is about: the first whose name it quotes. */
export function fieldOfError(message: string, names: readonly string[]): string | null {
  return names.find((name) => message.includes(`'${name}'`) || message.includes(`"${name}"`)) ?? null;
}

/** A call in one line, such as `read_offer(id: 1183)`. */
export function callText(name: string, given: unknown, longest = 90): string {
  const parts = Object.entries(argumentsOf({ arguments: given })).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  const text = `${name}(${parts.join(", ")})`;
  return text.length <= longest ? text : `${text.slice(0, longest - 2)}…)`;
}
