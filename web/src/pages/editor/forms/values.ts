// How a value of the text stands in a field of a form, and back.
import type { Bounds, Catalogue, FieldSpec, ObjectSpec, ShortForm } from "./catalogue";
import { nodeType } from "./catalogue";

export type Mapping = Readonly<Record<string, unknown>>;

export function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isSameValue(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => isSameValue(item, other[index]));
  }
  if (!isMapping(one) || !isMapping(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length && names.every((name) => name in other && isSameValue(one[name], other[name]))
  );
}

/** `${NAME}`, or a text with one in it: the value is known when a run starts. */
export function isVariable(value: unknown): value is string {
  return typeof value === "string" && /\$\{[^}]+\}/.test(value);
}

/** The key that the text uses for a field: its name, or another name of it that is written there. */
export function keyOf(field: Pick<FieldSpec, "key" | "aliases">, container: unknown): string {
  if (!isMapping(container) || field.key in container) return field.key;
  return field.aliases.find((alias) => alias in container) ?? field.key;
}

export function valueOf(field: Pick<FieldSpec, "key" | "aliases">, container: unknown): unknown {
  return isMapping(container) ? container[keyOf(field, container)] : undefined;
}

// The server says it in words, in the language of the page.
const NO_EFFECT =
  /^(Read for compatibility|No effect|An error here|Another name for|仅为兼容而读取|在当前版本中无效|无效，|写在这里会报错|`\w+` 的另一个名称)/;

/** What is said of fields that are accepted and do nothing: they are shown only where they are used. */
export function hasNoEffect(field: FieldSpec): boolean {
  return NO_EFFECT.test(field.description);
}

/** Whether nothing is left of a value, so that its key can go. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

/** What is written for a value; undefined takes the key away. `keeps` says that the default was written by hand. */
export function written(field: FieldSpec, value: unknown, keeps: boolean): unknown {
  if (isEmpty(value)) return undefined;
  return !keeps && !field.required && isSameValue(value, field.default) ? undefined : value;
}

export type Fit = "plain" | "variable" | "odd";

/** Whether a value is what its field expects. A variable may stand for any single value. */
export function fitOf(field: Pick<FieldSpec, "type" | "shape" | "lone" | "objects" | "choices">, value: unknown): Fit {
  if (value === undefined || value === null) return "plain";
  if (field.shape === "list") {
    const items = Array.isArray(value) ? value : field.lone ? [value] : null;
    return items?.every((item) => isFitting(field, item) || isVariable(item)) ? "plain" : isVariable(value) ? "variable" : "odd";
  }
  if (field.shape === "map") return isMapping(value) ? "plain" : isVariable(value) ? "variable" : "odd";
  if (isFitting(field, value)) return field.choices && isVariable(value) ? "variable" : "plain";
  return isVariable(value) ? "variable" : "odd";
}

function isFitting(field: Pick<FieldSpec, "type" | "objects" | "choices">, value: unknown): boolean {
  switch (field.type) {
    case "text":
      // YAML reads `1.0` as a number where a text is meant.
      return typeof value === "string" || typeof value === "number";
    case "number":
    case "integer":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    default:
      // An object tells its short forms apart itself, and anything may be anything.
      return true;
  }
}

export type NumberProblem = { kind: "number" } | { kind: "whole" } | { kind: keyof Bounds; limit: number };

export function numberProblem(value: number, isWhole: boolean, bounds: Bounds): NumberProblem | null {
  if (!Number.isFinite(value)) return { kind: "number" };
  if (isWhole && !Number.isInteger(value)) return { kind: "whole" };
  const { minimum, maximum, exclusive_minimum: above, exclusive_maximum: below } = bounds;
  if (minimum !== undefined && value < minimum) return { kind: "minimum", limit: minimum };
  if (maximum !== undefined && value > maximum) return { kind: "maximum", limit: maximum };
  if (above !== undefined && value <= above) return { kind: "exclusive_minimum", limit: above };
  if (below !== undefined && value >= below) return { kind: "exclusive_maximum", limit: below };
  return null;
}

const NUMBER = /^[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** The number that a text stands for; NaN if it stands for none. */
export function readNumber(text: string): number {
  const trimmed = text.trim().replace(/[,  ](?=\d{3}\b)/g, "");
  return NUMBER.test(trimmed) ? Number(trimmed.replaceAll("_", "")) : NaN;
}

const DURATION = /^(\d+(?:\.\d+)?)\s*(s|m|h|d)$/;
export const DURATION_SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;
export type DurationUnit = keyof typeof DURATION_SECONDS;

/** `30m` as amount and unit; a plain number is seconds. */
export function readDuration(value: unknown): { amount: number; unit: DurationUnit } | null {
  if (typeof value === "number") return { amount: value, unit: "s" };
  const found = typeof value === "string" ? DURATION.exec(value.trim()) : null;
  return found ? { amount: Number(found[1]), unit: found[2] as DurationUnit } : null;
}

/** Deadlines may be written as `2h`; the server gives them this upper bound, and no other duration. */
const LONGEST_DEADLINE = 3_153_600_000;

export function takesDurationText(field: FieldSpec): boolean {
  return field.widget === "duration" && field.bounds.maximum === LONGEST_DEADLINE;
}

/** The text of a value of any type: a text as it is, unless it would read as something else. */
export function anyText(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  return isJson(value) ? JSON.stringify(value) : value;
}

/** The value that a text of any type stands for. Throws SyntaxError for a beginning of JSON that has no end. */
export function readAny(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  if (isJson(trimmed)) return JSON.parse(trimmed) as unknown;
  if (/^["[{]/.test(trimmed)) JSON.parse(trimmed);
  return text;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** An object as a mapping: also where it is written as one value, of its `key`. */
export function expanded(spec: ObjectSpec, value: unknown): { value: Mapping; short: ShortForm | null } | null {
  if (value === undefined || value === null) return { value: {}, short: null };
  if (isMapping(value)) return { value, short: null };
  const short = spec.short.find((one) => one.key !== null && isOfShort(one, value));
  return short?.key ? { value: { [short.key]: value }, short } : null;
}

/** Whether a value is written in this short form. */
export function isOfShort(short: ShortForm, value: unknown): boolean {
  if (short.shape === "list") return Array.isArray(value);
  if (short.choices && !short.choices.some((choice) => choice.value === value)) return false;
  return short.type === "boolean" ? typeof value === "boolean" : typeof value === "string";
}

/** The object with the fields of a choice; null if it has none. */
export function variantOf(catalogue: Catalogue, spec: ObjectSpec, value: unknown): ObjectSpec | null {
  if (!isMapping(value)) return null;
  if (spec.name === "node") return nodeType(catalogue, String(value.type)) ?? null;
  if (!spec.variants) return null;
  const name = spec.variants.objects[String(value[spec.variants.key])];
  return name === undefined ? null : (catalogue.objects[name] ?? null);
}

/** Where the fields of a choice are: in a field of their own, or beside the choice. */
export function variantPlace(spec: ObjectSpec): string | null {
  return spec.name === "node" ? "config" : (spec.variants?.config ?? null);
}

/** What is left of the fields of one choice when another one is chosen: those that both know. */
export function carriedOver(before: ObjectSpec | null, after: ObjectSpec | null, value: unknown): Mapping {
  if (!isMapping(value) || !after) return {};
  const known = new Map(after.fields.map((field) => [field.key, field]));
  const same = (before?.fields ?? []).filter((field) => known.get(field.key)?.type === field.type);
  const names = new Set(same.flatMap((field) => [field.key, ...field.aliases]));
  return Object.fromEntries(Object.entries(value).filter(([name]) => names.has(name)));
}

/** Keys that the description does not know: they stay as they are. */
export function unknownKeys(spec: ObjectSpec, more: readonly FieldSpec[], value: unknown): string[] {
  if (!isMapping(value)) return [];
  const known = new Set([...spec.fields, ...more].flatMap((field) => [field.key, ...field.aliases]));
  return Object.keys(value).filter((name) => !known.has(name));
}

/** A new element of a list of objects: with a choice that has to be made already made. */
export function newObject(spec: ObjectSpec): Mapping {
  const choosing = spec.fields.find((field) => field.required && field.choices?.length);
  return choosing?.choices?.[0] ? { [choosing.key]: choosing.choices[0].value } : {};
}

/** One line that says what an object is. */
export function summaryOf(spec: ObjectSpec, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (!isMapping(value)) return Array.isArray(value) ? value.join(", ") : String(value);
  const parts: string[] = [];
  for (const [name, one] of Object.entries(value)) {
    if (isMapping(one)) continue;
    parts.push(name === "id" || name === "name" || name === spec.variants?.key ? String(one) : `${name} ${short(one)}`);
  }
  return parts.slice(0, 3).join(", ");
}

function short(value: unknown): string {
  const text = Array.isArray(value) ? `[${value.length}]` : String(value);
  return text.length > 24 ? `${text.slice(0, 23)}…` : text;
}
