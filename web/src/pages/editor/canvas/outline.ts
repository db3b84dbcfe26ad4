// The rows of the outline: a graph, its loops and nodes as they lie inside each other, and below each node its edges.
import type { Diagnostic, DrawnNode } from "../../../api/schema";
import type { WorkflowDocument } from "../../../document/model";
import { outlineOf } from "../../../graph/outline_rows";
import type { Loop, Scene } from "../../../graph/scene";
import type { EdgeTarget } from "./targets";

interface RowBase {
  id: string;
  level: number;
}

export type OutlineRow = RowBase &
  (
    | { kind: "graph"; graph: string; name: string }
    | { kind: "loop"; loop: Loop }
    | { kind: "node"; node: DrawnNode; loop: Loop | null }
    | { kind: "edge"; target: EdgeTarget; to: string; text: string; isBack: boolean; problems: readonly Diagnostic[] }
  );

export function rowsOf(scene: Scene | null, document: WorkflowDocument, targets: ReadonlyMap<number, EdgeTarget>): OutlineRow[] {
  const main = document.graphs.get("");
  const name = typeof main?.value.id === "string" ? main.value.id : "";
  const rows: OutlineRow[] = [{ kind: "graph", id: "graph ", level: 0, graph: "", name }];
  if (scene === null) return rows;
  const edges = new Map<string, OutlineRow[]>();
  scene.drawing.edges.forEach((drawn, place) => {
    const target = targets.get(place);
    if (target === undefined) return;
    const row: OutlineRow = {
      kind: "edge",
      id: `edge ${target.graph} ${target.index}`,
      level: 0,
      target,
      to: scene.byKey.get(drawn.target)?.id ?? drawn.target,
      text: drawn.text,
      isBack: drawn.back,
      problems: drawn.problems,
    };
    edges.set(drawn.source, [...(edges.get(drawn.source) ?? []), row]);
  });
  for (const { key, level, node, loop } of outlineOf(scene)) {
    if (node === null) {
      if (loop) rows.push({ kind: "loop", id: key, level: level + 1, loop });
      continue;
    }
    rows.push({ kind: "node", id: key, level: level + 1, node, loop });
    // A collapsed row hides all that is below it, as in any tree.
    if (node.inside === null) for (const edge of edges.get(key) ?? []) rows.push({ ...edge, level: level + 2 });
  }
  return rows;
}

/** Whether a row is open; undefined if there is nothing to collapse. */
export function isExpanded(row: OutlineRow | undefined): boolean | undefined {
  if (row?.kind !== "node" || !(row.node.region || row.node.inside)) return undefined;
  return row.node.inside === null;
}

/** Where a key leads from a row: up and down the list, out to what is around it, in to its first part. */
export function step(rows: readonly OutlineRow[], at: number, key: string): number | undefined {
  const row = rows[at];
  switch (key) {
    case "ArrowDown":
      return Math.min(rows.length - 1, at + 1);
    case "ArrowUp":
      return Math.max(0, at - 1);
    case "Home":
      return 0;
    case "End":
      return rows.length - 1;
    case "ArrowLeft":
      return row ? Math.max(0, rows.findLastIndex((one, index) => index < at && one.level < row.level)) : undefined;
    case "ArrowRight":
      return row && (rows[at + 1]?.level ?? 0) > row.level ? at + 1 : at;
    default:
      return undefined;
  }
}
