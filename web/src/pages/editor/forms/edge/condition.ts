// When an edge fires: the forms in which it may be written, and back.
import { isMapping, type Mapping } from "../values";

export type ConditionKind = "always" | "never" | "keyword" | "expression" | "function";

/** `isLong` keeps the way in which it was written: with a type, or as one value. */
export type Condition =
  | { kind: "always"; isLong: boolean }
  | { kind: "never" }
  | { kind: "keyword"; config: Mapping }
  | { kind: "expression"; expression: string; isLong: boolean }
  | { kind: "function"; name: string; isLong: boolean };

/** Null if it is none of them: it is edited as text then. */
export function readCondition(value: unknown): Condition | null {
  if (value === undefined || value === null) return { kind: "always", isLong: false };
  if (typeof value === "boolean") return value ? { kind: "always", isLong: true } : { kind: "never" };
  if (typeof value === "string") return { kind: "function", name: value, isLong: false };
  if (!isMapping(value)) return null;
  if (typeof value.cel === "string" && Object.keys(value).length === 1) {
    return { kind: "expression", expression: value.cel, isLong: false };
  }
  const config = isMapping(value.config) ? value.config : {};
  if (value.type === "keyword") return { kind: "keyword", config };
  if (value.type === "expression") return { kind: "expression", expression: String(config.expr ?? ""), isLong: true };
  if (value.type === "function") return { kind: "function", name: String(config.name ?? ""), isLong: true };
  return null;
}

export function writeCondition(condition: Condition): unknown {
  switch (condition.kind) {
    case "always":
      return condition.isLong ? true : undefined;
    case "never":
      return false;
    case "keyword":
      return { type: "keyword", config: condition.config };
    case "expression":
      return condition.isLong ? { type: "expression", config: { expr: condition.expression } } : { cel: condition.expression };
    case "function":
      return condition.isLong ? { type: "function", config: { name: condition.name } } : condition.name;
  }
}

/** Where the expression, or the name of the function, is written. */
export function placeOf(condition: Condition): readonly string[] {
  if (condition.kind === "expression") return condition.isLong ? ["config", "expr"] : ["cel"];
  if (condition.kind === "function") return condition.isLong ? ["config", "name"] : [];
  return [];
}
