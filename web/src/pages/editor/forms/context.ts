// What the fields of a form know of the item that they edit. Paths are relative to the item.
import { createContext, useContext } from "react";
import type { Path, Target, WorkflowDocument } from "../../../document/model";
import type { Catalogue, FieldSpec } from "./catalogue";

export type Writes = readonly (readonly [Path, unknown])[];

/** What a field may name. */
export interface Names {
  nodes: readonly string[];
  ports: readonly { name: string; title: string }[];
  models: readonly string[];
  tools: readonly string[];
  memories: readonly string[];
  functions: readonly string[];
  providers: readonly string[];
}

export interface Form {
  catalogue: Catalogue;
  /** The text that the form shows. */
  document: WorkflowDocument;
  targets: readonly Target[];
  /** Where the item is. */
  path: Path;
  names: Names;
  /** Writes values, as one step of the history. `undefined` removes a key. */
  write: (values: Writes) => void;
  /** Writes the value of a field of a mapping; takes the key away if the value is the default. */
  set: (field: FieldSpec, at: Path, container: unknown, value: unknown) => void;
  /** Exchanges two elements of a list, with their comments. */
  exchange: (one: Path, other: Path) => void;
  /** Gives a key of a mapping another name. */
  renameKey: (at: Path, from: string, to: string) => void;
  /** Whether several items differ here. */
  isMixed: (path: Path) => boolean;
  /** Shows where a value is written. */
  reveal: (path: Path) => void;
  select: (target: Target) => void;
}

export const FormContext = createContext<Form | null>(null);

export function useForm(): Form {
  const form = useContext(FormContext);
  if (form === null) throw new Error("there is no form around this component");
  return form;
}
