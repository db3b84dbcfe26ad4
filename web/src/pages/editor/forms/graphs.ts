// What is around an item: its graph, its edges, and the names that it may use.
import type { EdgeItem, GraphItem, Path, Target, WorkflowDocument } from "../../../document/model";
import type { Catalogue } from "./catalogue";
import { nodeType } from "./catalogue";
import type { Names } from "./context";
import { isMapping, type Mapping } from "./values";

export const edgesFrom = (document: WorkflowDocument, graph: string, id: string): readonly EdgeItem[] =>
  document.graphs.get(graph)?.edges.filter((edge) => edge.from === id) ?? [];

export const edgesTo = (document: WorkflowDocument, graph: string, id: string): readonly EdgeItem[] =>
  document.graphs.get(graph)?.edges.filter((edge) => edge.to === id) ?? [];

/** Where an item is; null if it is gone. */
export function pathOf(document: WorkflowDocument, target: Target): Path | null {
  switch (target.kind) {
    case "node":
      return document.nodes.get(target.key)?.path ?? null;
    case "edge":
      return edgeOf(document, target)?.path ?? null;
    case "graph":
      return document.graphs.get(target.graph)?.path ?? null;
    case "workflow":
      return [];
  }
}

export function edgeOf(document: WorkflowDocument, target: Target): EdgeItem | null {
  if (target.kind !== "edge") return null;
  return document.graphs.get(target.graph)?.edges.find((edge) => edge.index === target.index) ?? null;
}

export function valueAt(document: WorkflowDocument, target: Target): Mapping | null {
  switch (target.kind) {
    case "node":
      return document.nodes.get(target.key)?.value ?? null;
    case "edge":
      return edgeOf(document, target)?.value ?? null;
    case "graph":
      return document.graphs.get(target.graph)?.value ?? null;
    case "workflow":
      return isMapping(document.value) ? document.value : {};
  }
}

/** The graph that an item belongs to, or is. */
export function graphOf(document: WorkflowDocument, target: Target): GraphItem | null {
  const key = target.kind === "node" ? document.nodes.get(target.key)?.graph : target.kind === "workflow" ? "" : target.graph;
  return key === undefined ? null : (document.graphs.get(key) ?? null);
}

const BUILT_IN_TOOLS = ["exit_loop"];
const BUILT_IN_MEMORIES = ["working", "long_term"];

export interface Offered {
  functions: readonly string[];
  providers: readonly string[];
}

/** What the fields of an item may name: of the file, of its graph, and what the server offers. */
export function namesOf(document: WorkflowDocument, target: Target, catalogue: Catalogue, offered: Offered): Names {
  const file = isMapping(document.value) ? document.value : {};
  const graph = graphOf(document, target);
  const keys = (value: unknown) => (isMapping(value) ? Object.keys(value) : []);
  const memories = Array.isArray(graph?.value.memory) ? (graph.value.memory as unknown[]) : [];
  return {
    nodes: graph?.nodes.map((node) => node.id) ?? [],
    ports: target.kind === "edge" ? portsOf(document, target.graph, edgeOf(document, target)?.from ?? "", catalogue) : [],
    models: keys(file.models),
    tools: [...keys(file.tools), ...BUILT_IN_TOOLS],
    memories: [...memories.flatMap((one) => (isMapping(one) && one.name ? [String(one.name)] : [])), ...BUILT_IN_MEMORIES],
    functions: offered.functions,
    providers: offered.providers,
  };
}

/** The ways out of a node: those of its type, and those that a function chooses from. */
export function portsOf(
  document: WorkflowDocument,
  graph: string,
  id: string,
  catalogue: Catalogue,
): readonly { name: string; title: string }[] {
  const node = document.graphs.get(graph)?.nodes.find((one) => one.id === id);
  if (!node) return [];
  const ports = [...(nodeType(catalogue, node.type)?.ports ?? [])];
  const config = isMapping(node.value.config) ? node.value.config : {};
  const own = Array.isArray(config.ports) ? (config.ports as unknown[]) : [];
  // A deadline has a way out of its own.
  if (node.type === "human" && config.timeout !== undefined) ports.unshift({ name: "timeout", title: "timeout" });
  return [...own.map((name) => ({ name: String(name), title: String(name) })), ...ports];
}
