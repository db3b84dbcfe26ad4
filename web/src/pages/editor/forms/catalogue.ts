// What the server says about the fields of a workflow.
import { useQuery } from "@tanstack/react-query";
import { useLanguage } from "../../../i18n/messages";
import { descriptionsIn } from "../descriptions";

export interface FieldChoice {
  value: string;
  title: string;
}

export interface Bounds {
  minimum?: number;
  maximum?: number;
  exclusive_minimum?: number;
  exclusive_maximum?: number;
}

interface Described {
  title: string;
  description: string;
  type: "text" | "number" | "integer" | "boolean" | "object" | "any";
  shape: "single" | "list" | "map";
  widget: string;
  choices: readonly FieldChoice[] | null;
}

export interface FieldSpec extends Described {
  key: string;
  /** Other names of the key. */
  aliases: readonly string[];
  /** A list of one element may be given as the element. */
  lone: boolean;
  unit: { name: string; title: string } | null;
  required: boolean;
  default: unknown;
  bounds: Bounds;
  /** What an object may be; empty if its variant decides. */
  objects: readonly string[];
  /** Whether the value may be a variable, `${NAME}`. */
  env_allowed: boolean;
  /** The section of the manual. */
  see: string | null;
}

/** Another way to write an object: as one value, which is that of `key`, or stands for itself. */
export interface ShortForm extends Described {
  key: string | null;
}

export interface Variants {
  /** The field that chooses. */
  key: string;
  /** The field with the fields of the choice; null if they stand beside `key`. */
  config: string | null;
  /** The object of each choice. */
  objects: Readonly<Record<string, string>>;
}

export interface ObjectSpec {
  name: string;
  title: string;
  description: string;
  fields: readonly FieldSpec[];
  variants: Variants | null;
  short: readonly ShortForm[];
  /** Fields that are given alone, without the field that chooses. */
  alone: readonly string[];
}

export interface NodeTypeSpec extends ObjectSpec {
  aliases: readonly string[];
  ports: readonly { name: string; title: string }[];
  example: string;
}

export interface Catalogue {
  node_types: Readonly<Record<string, NodeTypeSpec>>;
  objects: Readonly<Record<string, ObjectSpec>>;
}

export function useCatalogue() {
  const language = useLanguage((state) => state.language);
  return useQuery(descriptionsIn<Catalogue>(language));
}

/** The description of a type, also by one of its other names. */
export function nodeType(catalogue: Catalogue, type: string): NodeTypeSpec | undefined {
  return catalogue.node_types[type] ?? Object.values(catalogue.node_types).find((one) => one.aliases.includes(type));
}

/** The fields of an object; those of a node type by the name of the type. */
export function specOf(catalogue: Catalogue, name: string): ObjectSpec | undefined {
  return catalogue.objects[name];
}
