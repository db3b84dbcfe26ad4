// What the server says about the fields of a workflow, found by a place in the text.
import type { Catalog } from "../../../api/schema";
import type { Level, Place } from "./place";

export interface Choice {
  value: string;
  title: string;
}

export interface FieldInfo {
  key: string;
  aliases: readonly string[];
  title: string;
  description: string;
  type: string;
  shape: "single" | "list" | "map";
  widget: string;
  unit: { title: string } | null;
  required: boolean;
  default: unknown;
  choices: readonly Choice[] | null;
  objects: readonly string[];
}

interface Variants {
  key: string;
  config: string | null;
  objects: Readonly<Record<string, string>>;
}

export interface ObjectInfo {
  name: string;
  title: string;
  description: string;
  fields: readonly FieldInfo[];
  variants: Variants | null;
  aliases?: readonly string[];
  ports?: readonly { name: string; title: string }[];
}

export interface Fields {
  types: Readonly<Record<string, ObjectInfo>>;
  objects: Readonly<Record<string, ObjectInfo>>;
}

export function fieldsIn(catalog: Catalog): Fields {
  return {
    types: catalog.node_types as unknown as Record<string, ObjectInfo>,
    objects: catalog.objects as unknown as Record<string, ObjectInfo>,
  };
}

/** A type of node by its name, or by another name for it. */
export function typeNamed(fields: Fields, name: string): ObjectInfo | undefined {
  return fields.types[name] ?? Object.values(fields.types).find((one) => one.aliases?.includes(name));
}

/** What may stand at a place: fields of an object, or the value of a field. */
export interface Expected {
  /** The fields of the map at the place. */
  fields: readonly FieldInfo[];
  /** The field whose value, or an element of it, is at the place. */
  field: FieldInfo | null;
  /** The keys are names that the author chooses. */
  areNames: boolean;
}

type Values = Readonly<Record<string, string>>;

function fieldsOf(fields: Fields, object: ObjectInfo | undefined, values: Values): readonly FieldInfo[] {
  if (object === undefined) return [];
  const { variants } = object;
  const more = variants && variants.config === null ? fields.objects[variants.objects[values[variants.key] ?? ""] ?? ""] : undefined;
  return more ? [...object.fields, ...more.fields] : object.fields;
}

/** The objects that the value of a field may be. */
function objectsOf(fields: Fields, object: ObjectInfo | undefined, field: FieldInfo, values: Values): readonly ObjectInfo[] {
  const { variants } = object ?? {};
  if (variants && variants.config === field.key) {
    const name = variants.objects[values[variants.key] ?? ""];
    const found = name === undefined ? undefined : fields.objects[name];
    return found ? [found] : [];
  }
  if (object === fields.objects.node && field.key === "config") {
    const type = typeNamed(fields, values.type ?? "");
    return type ? [type] : [];
  }
  return field.objects.flatMap((name) => fields.objects[name] ?? []);
}

/** What the server expects at a place; null if it does not say. */
export function expectedAt(fields: Fields, place: Pick<Place, "levels" | "isValue">): Expected | null {
  const root = fields.objects.workflow;
  if (root === undefined) return null;
  let objects: readonly ObjectInfo[] = [root];
  let field: FieldInfo | null = null;
  let names: { field: FieldInfo; objects: readonly ObjectInfo[] } | null = null;
  let isLast = false;
  for (const [index, level] of place.levels.entries()) {
    isLast = index === place.levels.length - 1;
    if (level.kind === "list") {
      if (isLast) return { fields: objects.flatMap((one) => fieldsOf(fields, one, level.values)), field, areNames: false };
      continue;
    }
    if (names !== null) {
      // The keys of this map are names; each value is one of the objects.
      if (isLast) return { fields: [], field: names.field, areNames: !place.isValue };
      ({ field, objects } = names);
      names = null;
      continue;
    }
    const candidates = candidatesOf(fields, objects, level, index === 0);
    const all = candidates.flatMap((object) => fieldsOf(fields, object, level.values).map((one) => ({ object, field: one })));
    if (isLast && !place.isValue) return { fields: all.map((one) => one.field), field, areNames: false };
    const found = all.find((one) => one.field.key === level.key || one.field.aliases.includes(level.key));
    if (found === undefined) return null;
    field = found.field;
    objects = objectsOf(fields, found.object, found.field, level.values);
    names = field.shape === "map" ? { field, objects } : null;
  }
  return isLast && place.isValue ? { fields: [], field, areNames: false } : null;
}

/** A body is a node or a graph: what is written there tells. A file with `nodes` at the top is a graph as well. */
function candidatesOf(fields: Fields, objects: readonly ObjectInfo[], level: Level, isTop: boolean): readonly ObjectInfo[] {
  const { graph } = fields.objects;
  if (isTop && graph && ("nodes" in level.values || !("graph" in level.values))) return [...objects, graph];
  if (objects.length < 2) return objects;
  const known = objects.filter((one) => one.name === ("nodes" in level.values ? "graph" : "id" in level.values ? "node" : one.name));
  return known.length > 0 ? known : objects;
}
