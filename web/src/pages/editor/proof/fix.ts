// Repairs of loops that nothing but their cap bounds: a counter beside the way back, or another cap.
import type { Diagnostic, Drawing, Proof, Region } from "../../../api/schema";
import { addGuard, freeId, setValue } from "../../../document/edits";
import type { Edit, EdgeItem, NewNode, WorkflowDocument } from "../../../document/model";

export interface Fix {
  /** The graph that gets the counter. */
  graph: string;
  loop: { entry: string; back: readonly number[]; exit: string | null };
  guard: NewNode;
}

/** How often a counter that is added lets a loop run. */
export const COUNTER_ROUNDS = 3;
const COUNTER_ID = "Loop Guard";
/** What a counter repairs. */
const REPAIRED = new Set(["only-capped"]);

/** The keys of the nodes in a region, also of those in the regions inside it. */
function nodesIn(drawing: Drawing, region: Region): Set<string> {
  const regions = new Set([region.key]);
  // A region precedes the regions inside it.
  for (const one of drawing.regions) if (regions.has(one.parent)) regions.add(one.key);
  return new Set(drawing.nodes.filter((node) => regions.has(node.parent)).map((node) => node.key));
}

const triggers = (edge: EdgeItem) => edge.value.trigger !== false;

/** The counter that bounds a loop, and how it is wired; null if the text does not have the loop any more. */
export function fixOf(document: WorkflowDocument, drawing: Drawing, region: Region): Fix | null {
  const entry = document.nodes.get(region.entry);
  const graph = entry && document.graphs.get(entry.graph);
  if (region.kind !== "loop" || entry === undefined || graph === undefined || graph.kind === "node") return null;
  const idOf = (key: string) => document.nodes.get(key)?.id;
  const inside = nodesIn(drawing, region);
  const backSources = new Set(
    drawing.edges.filter((edge) => edge.back && edge.target === region.entry && inside.has(edge.source)).map((edge) => idOf(edge.source)),
  );
  const back = graph.edges.filter((edge) => triggers(edge) && edge.to === entry.id && backSources.has(edge.from));
  if (back.length === 0) return null;
  // The way out that begins where the way back does is the most likely one.
  const ways = drawing.edges.filter((edge) => edge.leaves && edge.triggers && inside.has(edge.source) && !inside.has(edge.target));
  const way = ways.find((edge) => backSources.has(idOf(edge.source)) && !edge.explicit) ?? ways.find((edge) => !edge.explicit) ?? ways[0];
  const guard: NewNode = {
    id: freeId(document, graph.key, COUNTER_ID),
    type: "loop_counter",
    config: { max_iterations: COUNTER_ROUNDS },
  };
  return {
    graph: graph.key,
    loop: { entry: entry.id, back: back.map(({ index }) => index), exit: (way && idOf(way.target)) ?? null },
    guard,
  };
}

export function applyFix(document: WorkflowDocument, { graph, loop, guard }: Fix): Edit {
  return addGuard(document, graph, loop, guard);
}

/** The region of a loop that a diagnostic is about, if a counter repairs it. */
export function regionOfProblem(drawing: Drawing, diagnostic: Diagnostic): Region | undefined {
  if (!REPAIRED.has(diagnostic.code)) return undefined;
  const isSame = ({ code, line, column }: Diagnostic) =>
    code === diagnostic.code && line === diagnostic.line && column === diagnostic.column;
  return drawing.regions.find((region) => region.kind === "loop" && region.problems.some(isSame));
}

/** The region of a loop with this proof, and the node that stands for it: its entry, or the node that is the loop. */
export function loopOfProof(drawing: Drawing, proof: Proof): { region: Region; node: string } | undefined {
  const members = new Set(proof.nodes);
  for (const region of drawing.regions) {
    if (!region.repeats) continue;
    const node = drawing.nodes.find((one) => (region.kind === "loop" ? one.key === region.entry : one.region === region.key));
    if (node?.id !== proof.id) continue;
    // Loops in several subgraphs may have the same name.
    const inside = nodesIn(drawing, region);
    if (drawing.nodes.every((one) => one.parent !== region.key || one.missing || members.has(one.id))) return { region, node: node.key };
    if (inside.size === 0) return { region, node: node.key };
  }
  return undefined;
}

/** Chooses the cap of a loop: `loops.<entry>.max_rounds` of its graph. */
export function capEdit(document: WorkflowDocument, entryKey: string, rounds: number): Edit {
  const entry = document.nodes.get(entryKey);
  const graph = entry && document.graphs.get(entry.graph);
  if (entry === undefined || graph === undefined) return { changes: [] };
  return {
    changes: setValue(document, [...graph.path, "loops", entry.id, "max_rounds"], rounds),
    select: [{ kind: "node", key: entryKey }],
  };
}
