// A JSON Schema of one level, as a list of fields, and back.
import { isMapping, type Mapping } from "../values";

export type AnswerType = "string" | "number" | "integer" | "boolean" | "array";

export interface AnswerField {
  name: string;
  type: AnswerType;
  isRequired: boolean;
  description: string;
}

export const ANSWER_TYPES: readonly AnswerType[] = ["string", "number", "integer", "boolean", "array"];
const KNOWN = new Set(["type", "properties", "required", "additionalProperties"]);

/** Null if the schema says more than a list of fields can. */
export function readSchema(value: unknown): AnswerField[] | null {
  if (!isMapping(value) || value.type !== "object" || Object.keys(value).some((key) => !KNOWN.has(key))) return null;
  const properties = value.properties ?? {};
  const required = value.required ?? [];
  if (!isMapping(properties) || !Array.isArray(required)) return null;
  if (required.some((name) => !(String(name) in properties))) return null;
  const fields: AnswerField[] = [];
  for (const [name, one] of Object.entries(properties)) {
    if (!isMapping(one) || !ANSWER_TYPES.includes(one.type as AnswerType)) return null;
    const { type, description = "", items, ...rest } = one;
    const isPlainList = isMapping(items) && items.type === "string" && Object.keys(items).length === 1;
    if (Object.keys(rest).length || typeof description !== "string" || (type === "array") !== isPlainList) return null;
    fields.push({ name, type: type as AnswerType, isRequired: required.includes(name), description });
  }
  return fields;
}

/** The schema of a list of fields. `before` is what is written now: it keeps what the list does not show. */
export function writeSchema(fields: readonly AnswerField[], before?: unknown): Mapping {
  const properties = Object.fromEntries(
    fields.map(({ name, type, description }) => [
      name,
      {
        type,
        ...(type === "array" ? { items: { type: "string" } } : {}),
        ...(description ? { description } : {}),
      },
    ]),
  );
  const required = fields.filter((field) => field.isRequired).map((field) => field.name);
  return {
    type: "object",
    properties,
    ...(required.length ? { required } : {}),
    ...(isMapping(before) && "additionalProperties" in before ? { additionalProperties: before.additionalProperties } : {}),
  };
}
