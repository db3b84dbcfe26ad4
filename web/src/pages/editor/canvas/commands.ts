// What can be done to a workflow on the canvas and in the outline: each command is one edit of the text.
import type { Region } from "../../../api/schema";
import { addAfter, addEdge, addNode, copied, freeId, paste, reconnect, remove, rename, setPosition, setValue } from "../../../document/edits";
import type { Edit, GraphItem, NewEdge, Target, WorkflowDocument } from "../../../document/model";
import { neighbour } from "../../../graph/navigation";
import { cardBox, type Point } from "../../../graph/scene";
import { toast, toastError } from "../../../ui/toasts";
import { applyFix, capEdit, fixOf, type Fix } from "../proof/fix";
import type { EditorStore } from "../store";
import { aligned, type Alignment } from "./align";
import { combined, type MakeEdit } from "./combine";
import { isInside, withCollapsed } from "../collapsed";
import { isOnlyCapped, regionToFix } from "./fix";
import type { CanvasTexts } from "./messages";
import { storedPlaces } from "./positions";
import { idFor, starter } from "./starters";
import { keyIn, type EdgeTarget } from "./targets";
import type { UiStore } from "./ui";

/** Where a new node goes: behind a node, to the end of an edge from a port, or into a graph. */
export type NewPlace = { after: string } | { from: string; port: string } | { graph: string };

export type Commands = ReturnType<typeof commandsOf>;

export function commandsOf(editor: EditorStore, ui: UiStore, texts: CanvasTexts, mayEdit: boolean) {
  const now = () => editor.getState().lastGood;
  const say = (said: string) => ui.setState({ said });

  /** Makes an edit, says what it did, and brings the keyboard to what is selected then. */
  const run = (make: MakeEdit, said: string): Edit | null => {
    if (!mayEdit) return null;
    try {
      const base = now();
      const edit = make(base);
      editor.getState().edit(edit, base);
      const node = edit.select?.find((target) => target.kind === "node");
      if (node !== undefined) ui.setState({ cursor: node.key });
      say(said);
      return edit;
    } catch (error) {
      toastError(error);
      return null;
    }
  };

  const selection = () => editor.getState().selection;
  const selectedNodes = () => selection().flatMap((target) => (target.kind === "node" ? [target.key] : []));
  const selectedEdge = (): EdgeTarget | undefined => selection().findLast((target) => target.kind === "edge");
  /** What keys act on: the node that was selected last, or the one that has the focus. */
  const subject = (): string => {
    const chosen = selectedNodes().at(-1);
    if (chosen !== undefined) return chosen;
    const key = document.activeElement instanceof HTMLElement ? (document.activeElement.dataset.key ?? "") : "";
    return now().nodes.has(key) ? key : "";
  };
  /** The same among all that is drawn: also what another file has. */
  const shownSubject = (): string => subject() || ui.getState().cursor;
  /** The graph into which something without a place goes. */
  const graphNow = (): string => {
    const node = now().nodes.get(subject());
    const edge = selectedEdge();
    const graph = selection().find((target) => target.kind === "graph");
    return node?.graph ?? edge?.graph ?? graph?.graph ?? "";
  };
  const node = (key: string) => now().nodes.get(key);

  const add = (type: string, place: NewPlace): string | null => {
    const near = "after" in place ? place.after : "from" in place ? place.from : "";
    const graph = "graph" in place ? place.graph : (node(near)?.graph ?? "");
    const make = (document: WorkflowDocument): Edit => {
      const made = starter(type, freeId(document, graph, idFor(type)));
      if ("after" in place) return addAfter(document, place.after, made);
      if ("graph" in place) return addNode(document, graph, made);
      const from = document.nodes.get(place.from)?.id ?? "";
      const step = addNode(document, graph, made, place.from);
      const edge = { from, to: made.id, ...(place.port && { port: place.port }) };
      return { ...combined(document, [() => step, (next) => addEdge(next, graph, edge)]), select: step.select };
    };
    const edit = run(make, "");
    if (edit === null) return null;
    const key = edit.select?.find((target) => target.kind === "node")?.key ?? "";
    say(texts.added(node(key)?.id ?? type));
    return key;
  };

  const connect = (from: string, to: string, port: string): void => {
    const [source, target] = [node(from), node(to)];
    if (source === undefined || target === undefined) return;
    if (source.graph !== target.graph) {
      toast(texts.otherGraph, "failed");
      return;
    }
    const edge: NewEdge = { from: source.id, to: target.id, ...(port && { port }) };
    run((document) => addEdge(document, source.graph, edge), texts.connected(source.id, target.id));
  };

  const reconnectEnd = (edge: EdgeTarget, end: "from" | "to", key: string): void => {
    const other = node(key);
    if (other === undefined) return;
    if (other.graph !== edge.graph) {
      toast(texts.otherGraph, "failed");
      return;
    }
    run((document) => reconnect(document, edge.graph, edge.index, { [end]: other.id }), texts.reconnected);
  };

  const setPort = (edge: EdgeTarget, port: string): void => {
    run((document) => reconnect(document, edge.graph, edge.index, { port }), texts.reconnected);
  };

  const removeTargets = (targets: readonly Target[]): void => {
    const items = targets.filter((target) => target.kind === "node" || target.kind === "edge");
    if (!items.length) return;
    const { scene, cursor } = ui.getState();
    const gone = new Set(items.flatMap((target) => (target.kind === "node" ? [target.key] : [])));
    const next = scene && gone.has(cursor) ? nearby(cursor, gone) : cursor;
    if (run((document) => remove(document, items), texts.removed(items.length))) {
      editor.getState().select([]);
      ui.setState({ cursor: next, wanted: next });
    }
  };
  /** A node that stays, near one that goes. */
  const nearby = (key: string, gone: ReadonlySet<string>): string => {
    const { scene } = ui.getState();
    if (scene === null) return "";
    for (const direction of ["up", "down", "left", "right"] as const) {
      let at = key;
      for (let step = 0; step < scene.byKey.size; step++) {
        const next = neighbour(scene, at, direction);
        if (next === at) break;
        if (!gone.has(next)) return next;
        at = next;
      }
    }
    return [...scene.byKey.keys()].find((one) => !gone.has(one)) ?? "";
  };

  const renameNode = (key: string, id: string): void => {
    const item = node(key);
    const wanted = id.trim();
    if (item === undefined || !wanted || wanted === item.id) return;
    if (keyIn(now(), item.graph, wanted) !== undefined) {
      toast(texts.isTaken(wanted), "failed");
      return;
    }
    const edit = run((document) => rename(document, key, wanted), texts.renamed(wanted));
    const renamed = edit?.select?.find((target) => target.kind === "node");
    if (renamed) ui.setState({ cursor: renamed.key, wanted: renamed.key });
  };

  /** Stores whole numbers: halves of a pixel only make lines longer. */
  const move = (places: ReadonlyMap<string, Point | null>): void => {
    const all = [...places].map(([key, at]) => ({ key, at: at && { x: Math.round(at.x), y: Math.round(at.y) } }));
    if (all.length) run((document) => ({ ...setPosition(document, all), select: undefined }), texts.moved(all.length));
  };
  const tidy = (): void => {
    const stored = [...storedPlaces(now()).keys()].map((key) => ({ key, at: null }));
    if (stored.length) run((document) => ({ ...setPosition(document, stored), select: undefined }), texts.tidied);
  };
  const align = (how: Alignment): void => {
    const { scene } = ui.getState();
    const boxes = new Map(
      selectedNodes().flatMap((key) => {
        const drawn = scene?.byKey.get(key);
        return drawn ? [[key, drawn.region ? drawn.box : cardBox(drawn)] as const] : [];
      }),
    );
    move(aligned(boxes, how));
  };

  const setEnds = (name: "start" | "end", key: string): void => {
    const item = node(key);
    const graph = item && now().graphs.get(item.graph);
    if (item === undefined || graph === undefined) return;
    const ends = toggled(graph, name, item.id);
    const value = ends.length > 1 ? ends : ends[0];
    run((document) => ({ changes: setValue(document, [...graph.path, name], value) }), `${item.id}: ${texts[name]}`);
  };

  const copyText = (): string | null => {
    const targets = selection().filter((target) => target.kind === "node" || target.kind === "edge");
    if (!targets.length) return null;
    const text = copied(now(), targets);
    ui.setState({ clipboard: text });
    say(texts.copied(targets.length));
    return text;
  };
  const pasteText = (text: string): void => {
    if (!text.trim()) return;
    run((document) => paste(document, graphNow(), text), texts.pasted);
  };
  const duplicate = (): void => {
    const text = copyText();
    if (text !== null) pasteText(text);
  };

  /** The loop that a fix is about: the one given, one around the subject or inside it, or any. */
  const fixable = (regionKey?: string): { fix: Fix; region: Region } | null => {
    const { scene } = ui.getState();
    const { drawing } = editor.getState();
    if (scene === null || drawing === null) return null;
    const inner = drawing.regions.filter((one) => isOnlyCapped(one) && !scene.regions.has(one.key));
    const region =
      regionKey === undefined
        ? (inner.find((one) => isInside(one.key, subject())) ?? regionToFix(scene, subject()) ?? inner[0])
        : scene.regions.get(regionKey);
    const fix = region ? fixOf(now(), drawing, region) : null;
    return region && fix ? { fix, region } : null;
  };
  const fix = (regionKey?: string): void => {
    const found = fixable(regionKey);
    if (found === null) say(texts.nothingToFix);
    else run((document) => applyFix(document, found.fix), texts.guardAdded(found.fix.loop.entry));
  };
  const setCap = (entry: string, rounds: number): void => {
    const id = node(entry)?.id;
    if (id === undefined || !Number.isInteger(rounds) || rounds < 1) return;
    run((document) => capEdit(document, entry, rounds), texts.capSet(id, rounds));
  };

  /** Collapses a node to a card, or opens it. It is a setting of the view, so readers may do it, too. */
  const toggle = (key: string): void => {
    const drawn = ui.getState().scene?.byKey.get(key);
    if (drawn === undefined || !(drawn.region || drawn.inside)) {
      say(texts.nothingInside);
      return;
    }
    const { collapsed, select, setCollapsed } = editor.getState();
    const isOpen = drawn.region !== "";
    // What is not seen should not be deleted by a key.
    if (isOpen && selectedNodes().some((one) => isInside(one, key))) select([{ kind: "node", key }]);
    ui.setState({ cursor: key, toggled: key });
    setCollapsed(isOpen ? withCollapsed(collapsed, [key]) : withCollapsed(collapsed, [], [key]));
    say(isOpen ? texts.isClosed(drawn.id) : texts.isOpened(drawn.id));
  };
  /** Collapses all nodes of the outermost graph, or opens everything. */
  const toggleAll = (isClosing: boolean): void => {
    const all = (editor.getState().drawing?.nodes ?? []).filter((one) => one.region && !one.key.includes("/")).map((one) => one.key);
    if (isClosing && selectedNodes().some((one) => all.some((key) => isInside(one, key)))) editor.getState().select([]);
    ui.setState({ toggled: ui.getState().cursor });
    editor.getState().setCollapsed(isClosing ? withCollapsed(editor.getState().collapsed, all) : []);
    say(isClosing ? texts.closeAll : texts.openAll);
  };

  const selectAll = (): void => {
    const all = [...now().nodes.values()].map((item): Target => ({ kind: "node", key: item.key }));
    editor.getState().select(all);
    say(texts.selected(all.length));
  };
  const undo = (): void => {
    editor.getState().undo();
    say(texts.undone);
  };
  const redo = (): void => {
    editor.getState().redo();
    say(texts.redone);
  };

  return {
    mayEdit, say, selection, selectedNodes, selectedEdge, subject, shownSubject, graphNow, node,
    add, connect, reconnectEnd, setPort, renameNode, move, tidy, align, setEnds,
    removeSelected: () => removeTargets(selection().length ? selection() : subject() ? [{ kind: "node", key: subject() }] : []),
    copyText, pasteText, duplicate, fixable, fix, setCap, toggle, toggleAll, selectAll, undo, redo,
  };
}

function toggled(graph: GraphItem, name: "start" | "end", id: string): string[] {
  const before = graph[name];
  return before.includes(id) ? before.filter((one) => one !== id) : [...before, id];
}
