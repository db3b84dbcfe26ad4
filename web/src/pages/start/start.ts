// What the drawer makes of its fields: the body of the request, what is wrong with them, and the same as a
// command. Nothing here knows about the page.
import type { Problem, StartBody, VariableView } from "../../api/schema";
import type { Draft } from "./draft";

export type Value = string | number | boolean | null;

/** The limits of a run, those that matter most first. */
export const LIMITS = [
  "tokens",
  "cost_usd",
  "seconds",
  "rounds",
  "steps",
  "model_calls",
  "tool_calls",
  "input_tokens",
  "output_tokens",
  "tokens_per_call",
] as const;

/** The limits that always have a field. */
export const FIRST_LIMITS: readonly string[] = LIMITS.slice(0, 3);

/** The values of variables that were changed, each with the type that it has in the file. */
export function variablesOf(draft: Draft, known: readonly VariableView[]): Record<string, Value> {
  const values: Record<string, Value> = {};
  for (const { name, value, secret } of known) {
    const typed = draft.variables[name];
    if (typed === undefined || secret || !isEditable(value)) continue;
    const read = readValue(typed, value);
    if (read !== value) values[name] = read;
  }
  return values;
}

/** Lists and maps can only be changed in the file. */
export function isEditable(value: unknown): boolean {
  return value === null || typeof value !== "object";
}

/** A text that somebody typed, as the type that the variable has. A text stays one, also if it looks like a number. */
export function readValue(text: string, before: unknown): Value {
  if (typeof before === "number" && text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  if (typeof before === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

export interface LimitsRead {
  values: Record<string, number>;
  /** The names of those that are no numbers. */
  wrong: string[];
}

export function limitsOf(draft: Draft): LimitsRead {
  const read: LimitsRead = { values: {}, wrong: [] };
  for (const [name, text] of Object.entries(draft.limits)) {
    if (text.trim() === "") continue;
    const value = Number(text.replaceAll(/[\s,_]/g, ""));
    const isWhole = name === "cost_usd" || name === "seconds" || Number.isInteger(value);
    if (Number.isFinite(value) && value >= 0 && isWhole) read.values[name] = value;
    else read.wrong.push(name);
  }
  return read;
}

/** The structured fields; null if there are none, undefined if the text is no JSON object. */
export function dataOf(draft: Draft): Record<string, unknown> | null | undefined {
  if (draft.data === null || draft.data.trim() === "") return null;
  try {
    const found = JSON.parse(draft.data) as unknown;
    const isObject = typeof found === "object" && found !== null && !Array.isArray(found);
    return isObject ? (found as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

export function bodyOf(
  draft: Draft,
  workflow: StartBody["workflow"],
  group: string | undefined,
  variables: readonly VariableView[],
  script: string | null,
  isPaused: boolean,
): StartBody {
  const data = dataOf(draft) ?? null;
  const body: StartBody = { workflow, input: data === null ? draft.input : { text: draft.input, data } };
  const values = variablesOf(draft, variables);
  const limits = limitsOf(draft).values;
  const breakpoints = breakpointsOf(draft);
  if (group !== undefined) body.group = group;
  if (Object.keys(values).length) body.variables = values;
  if (Object.keys(limits).length) body.limits = limits;
  if (breakpoints.length) body.breakpoints = breakpoints;
  if (script !== null) body.script = script;
  if (isPaused) body.paused = true;
  return body;
}

const CONDITION = /^cel:\s*/;

export function breakpointsOf(draft: Draft): NonNullable<StartBody["breakpoints"]> {
  return draft.breakpoints
    .map((text) => text.trim())
    .filter(Boolean)
    .map((text) => (CONDITION.test(text) ? { cel: text.replace(CONDITION, "") } : text));
}

/** The same run, started in a terminal. */
export function commandOf(draft: Draft, name: string, variables: readonly VariableView[], hasScript: boolean): string {
  const words = [`roundel run ${quote(`${name}.yaml`)}`];
  for (const [key, value] of Object.entries(variablesOf(draft, variables))) words.push(`--var ${quote(`${key}=${String(value)}`)}`);
  for (const [key, value] of Object.entries(limitsOf(draft).values)) words.push(`--limit ${key}=${value}`);
  if (hasScript) words.push("--script script.yaml");
  for (const place of breakpointsOf(draft)) words.push(`--break ${quote(typeof place === "string" ? place : `cel: ${place.cel}`)}`);
  const data = dataOf(draft);
  if (data) words.push(`--data ${quote(JSON.stringify(data))}`);
  if (draft.input) words.push(`--input ${quote(draft.input)}`);
  return words.join(" \\\n  ");
}

/** A word of a command, as a POSIX shell reads it. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export type Field = "workflow" | "input" | "variables" | "limits" | "script" | "breakpoints" | "";

export interface Note {
  /** The line in the text of the workflow; 0 if there is none. */
  line: number;
  text: string;
}

export interface Refusal {
  /** Empty for the whole form. */
  field: Field;
  notes: Note[];
}

/** The errors among diagnostics. */
export function errorsOf(diagnostics: readonly { severity: string; line: number; message: string; hint: string }[]): Note[] {
  return diagnostics
    .filter((one) => one.severity === "error")
    .map(({ line, message, hint }) => ({ line, text: hint ? `${message} (${hint})` : message }));
}

/** The name of the script in diagnostics. */
const SCRIPT = "<script>";

/** Which field a refusal of the server is about, and what it says. */
export function refusalOf(problem: Problem | undefined, message: string): Refusal {
  if (problem?.diagnostics?.length) {
    const field = problem.diagnostics[0]?.file === SCRIPT ? "script" : "workflow";
    return { field, notes: errorsOf(problem.diagnostics) };
  }
  const note = { line: 0, text: message };
  const first = problem?.errors?.[0];
  if (first !== undefined) {
    const names = ["workflow", "input", "variables", "limits", "script", "breakpoints"] as const;
    const field = names.find((name) => first.location[1] === name) ?? "";
    const all = new Set(problem?.errors?.map((one) => one.message));
    return { field, notes: [...all].map((text) => ({ line: 0, text })) };
  }
  // These have a text and no place.
  if (/^(there is no limit|a limit is)/.test(message)) return { field: "limits", notes: [note] };
  if (/breakpoint|^cannot read `/.test(message)) return { field: "breakpoints", notes: [note] };
  if (problem?.status === 404) return { field: "workflow", notes: [note] };
  return { field: "", notes: [note] };
}

/** Not `crypto.randomUUID`, which exists only over HTTPS and on this machine. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** One key for one body: a second click, or a second try after a lost answer, starts no second run. */
export class IdempotencyKeys {
  #body = "";
  #key = "";

  keyFor(body: StartBody): string {
    const text = JSON.stringify(body);
    if (text !== this.#body) {
      this.#body = text;
      this.#key = newKey();
    }
    return this.#key;
  }
}
