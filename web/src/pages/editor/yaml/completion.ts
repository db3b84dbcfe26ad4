// Keys and values that may stand at the cursor.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { GraphItem, WorkflowDocument } from "../../../document/model";
import { targetAt } from "../../../document/read";
import { placeAt, type Place } from "./place";
import { expectedAt, typeNamed, type FieldInfo, type Fields } from "./schema";

export interface Known {
  fields: Fields | null;
  document: WorkflowDocument;
}

/** The graph around a place of the text. */
function graphAt(document: WorkflowDocument, offset: number): GraphItem | undefined {
  const target = targetAt(document, offset);
  const key =
    target.kind === "node" ? document.nodes.get(target.key)?.graph : target.kind === "workflow" ? "" : target.graph;
  return document.graphs.get(key ?? "") ?? document.graphs.get("");
}

const keysOf = (value: unknown): string[] => (typeof value === "object" && value !== null ? Object.keys(value) : []);

function top(document: WorkflowDocument, key: string): unknown {
  return typeof document.value === "object" && document.value !== null ? (document.value as Record<string, unknown>)[key] : undefined;
}

const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_ ./-]*$/u;
const RESERVED = /^(?:true|false|yes|no|on|off|null|~|[-+.\d].*)$/i;

/** A text as YAML writes it: in quotes if it would mean something else without them. */
export function written(text: string): string {
  return PLAIN.test(text) && !RESERVED.test(text) && !text.endsWith(" ") ? text : JSON.stringify(text);
}

function valuesOf(known: Known, field: FieldInfo, place: Place, offset: number): Completion[] {
  const plain = (texts: readonly string[], type: string): Completion[] =>
    texts.map((text) => ({ label: text, apply: written(text), type }));
  if (field.choices) {
    return field.choices.map(({ value, title }) => ({ label: String(value), detail: title === value ? undefined : title, type: "enum" }));
  }
  if (field.type === "boolean") return plain(["true", "false"], "keyword").map((one) => ({ ...one, apply: one.label }));
  const graph = graphAt(known.document, offset);
  switch (field.widget) {
    case "node":
      return (graph?.nodes ?? []).map(({ id, type }) => ({ label: id, apply: written(id), detail: type, type: "variable" }));
    case "port": {
      const from = place.levels.at(-1)?.values.from ?? "";
      const type = graph?.nodes.find(({ id }) => id === from)?.type ?? "";
      const ports = (known.fields && typeNamed(known.fields, type)?.ports) ?? [];
      return ports.map(({ name, title }) => ({ label: name, detail: title, type: "enum" }));
    }
    case "model":
      return plain(keysOf(top(known.document, "models")), "variable");
    case "tool":
      return plain(keysOf(top(known.document, "tools")), "function");
    default:
      return [];
  }
}

/** What a key is followed by: a value on its line, or a map or a list below it. */
function keyText(field: FieldInfo, place: Place): string {
  const isBlock = !place.isFlow && (field.shape !== "single" || field.type === "object") && field.widget !== "node";
  if (!isBlock) return `${field.key}: `;
  const deeper = " ".repeat(place.indent + 2);
  return `${field.key}:\n${deeper}${field.shape === "list" && field.type === "object" ? "- " : ""}`;
}

function about(field: FieldInfo): string {
  return field.unit ? field.unit.title : field.choices ? field.choices.map(({ value }) => value).join(" | ") : field.title;
}

/** What may be written at a place of a text; null if nothing is known about it. */
export function completionsAt(known: Known, text: string, offset: number): { from: number; options: Completion[] } | null {
  if (known.fields === null) return null;
  const place = placeAt(text, offset);
  if (place === null) return null;
  const expected = expectedAt(known.fields, place);
  if (expected === null) return null;
  const { from } = place;
  if (place.isValue) {
    if (expected.field === null) return null;
    const options = valuesOf(known, expected.field, place, offset);
    return options.length > 0 ? { from, options } : null;
  }
  const inMap = place.levels.at(-1)?.values ?? {};
  if (expected.areNames) {
    if (expected.field?.key !== "loops") return null;
    const ids = graphAt(known.document, offset)?.nodes.map(({ id }) => id) ?? [];
    return { from, options: ids.map((id) => ({ label: id, apply: `${written(id)}:`, type: "variable" })) };
  }
  const options: Completion[] = expected.fields
    .filter((field) => !(field.key in inMap) || text.slice(from, offset) === field.key)
    .map((field) => ({
      label: field.key,
      detail: about(field),
      info: field.description,
      type: "property",
      boost: field.required ? 2 : 0,
      apply: keyText(field, place),
    }));
  // Directly in a list of texts, what begins there is a value.
  if (options.length === 0 && expected.field) options.push(...valuesOf(known, expected.field, place, offset));
  return options.length > 0 ? { from, options } : null;
}

/** Completions for what is known now; if the fields are still on their way, a moment later. */
export function completionSource(known: () => Known, load: () => Promise<Fields>) {
  const complete = (context: CompletionContext, now: Known): CompletionResult | null => {
    const text = context.state.doc.toString();
    const found = completionsAt(now, text, context.pos);
    if (found === null) return null;
    const typed = text.slice(found.from, context.pos);
    // After a space behind a key, values are offered at once; keys need a letter, or to be asked for.
    if (!context.explicit && typed === "" && !/:\s$/.test(text.slice(0, context.pos))) return null;
    return { ...found, validFor: /^[\p{L}\p{N}_ -]*$/u };
  };
  return (context: CompletionContext) => {
    const now = known();
    return now.fields === null ? load().then((fields) => complete(context, { ...now, fields })) : complete(context, now);
  };
}
