// Commands that ask first: for a type, a node, a port or a name. Everything the mouse can do, the keyboard does here.
import type { Target } from "../../../document/model";
import type { Point } from "../../../graph/scene";
import { nodeLook } from "../../../ui/Icon";
import type { EditorStore } from "../store";
import { ALIGNMENTS } from "./align";
import type { Commands, NewPlace } from "./commands";
import type { CanvasTexts } from "./messages";
import { groupOf, portsOf, type NodeType } from "./node_types";
import { storedPlaces } from "./positions";
import { lineOf, type EdgeTarget } from "./targets";
import { open, type Item, type UiStore } from "./ui";

export type Dialogs = ReturnType<typeof dialogsOf>;

/** Beside a node, in the window; or in the middle of the canvas. */
export function beside(key: string): Point {
  const found = key ? document.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
  const box = (found ?? document.querySelector(".editor-canvas"))?.getBoundingClientRect();
  if (box === undefined) return { x: innerWidth / 2, y: innerHeight / 3 };
  return found ? { x: box.right + 12, y: box.top } : { x: box.left + box.width / 2 - 120, y: box.top + 40 };
}

/** Over a node, where its name is. */
function over(key: string): Point {
  const box = document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.getBoundingClientRect();
  return box ? { x: box.left, y: box.top } : beside("");
}

export function dialogsOf(editor: EditorStore, ui: UiStore, texts: CanvasTexts, types: readonly NodeType[], commands: Commands) {
  const now = () => editor.getState().lastGood;
  const typeItems = (): Item[] =>
    types.map((type) => ({
      id: type.name,
      text: type.name,
      hint: type.title,
      group: texts[groupOf(type.name)],
      ...nodeLook(type.name),
    }));
  const nodeItems = (graph?: string): Item[] =>
    [...now().nodes.values()]
      .filter((node) => graph === undefined || node.graph === graph)
      .map((node) => ({ id: node.key, text: node.id, hint: node.graph ? `${node.type}, ${node.graph}` : node.type, ...nodeLook(node.type) }));

  const rename = (key: string, at: Point = over(key)): void => {
    const node = commands.node(key);
    if (node === undefined || !commands.mayEdit) return;
    open(ui, {
      kind: "prompt",
      label: texts.renameNode(node.id),
      value: node.id,
      at,
      done: (id) => {
        ui.setState({ wanted: key });
        commands.renameNode(key, id);
      },
    });
  };

  const chooseType = (label: string, place: NewPlace, at: Point): void => {
    if (!commands.mayEdit) return;
    open(ui, {
      kind: "list",
      label,
      items: typeItems(),
      at,
      choose: (type) => {
        const key = commands.add(type, place);
        if (key) rename(key, at);
      },
    });
  };
  const add = (): void => {
    const key = commands.subject();
    const node = commands.node(key);
    if (node === undefined) chooseType(texts.addFirst, { graph: commands.graphNow() }, beside(""));
    else chooseType(texts.addAfterNode(node.id), { after: key }, beside(key));
  };

  const choosePort = (key: string, at: Point, choose: (port: string) => void, isAsked = false): void => {
    const node = commands.node(key);
    if (node === undefined) return;
    const ports = portsOf(types, node, texts.plainPort);
    // Who does not ask for a port gets the plain one, if there is one.
    if (!isAsked && ports[0]?.name === "") {
      choose("");
      return;
    }
    open(ui, {
      kind: "list",
      label: texts.port,
      items: ports.map((port) => ({ id: port.name, text: port.name || port.title, hint: port.name ? port.title : "" })),
      at,
      choose,
    });
  };
  const connect = (): void => {
    const key = commands.subject();
    const node = commands.node(key);
    if (node === undefined) {
      commands.say(texts.nothingSelected);
      return;
    }
    if (!commands.mayEdit) return;
    const at = beside(key);
    open(ui, {
      kind: "list",
      label: texts.connectFrom(node.id),
      items: nodeItems(node.graph),
      at,
      choose: (to) => choosePort(key, at, (port) => commands.connect(key, to, port)),
    });
  };

  const edgeItems = (key: string): { items: Item[]; targets: Map<string, Target> } => {
    const node = commands.node(key);
    const targets = new Map<string, Target>();
    const items = (now().graphs.get(node?.graph ?? "")?.edges ?? []).flatMap((edge): Item[] => {
      if (node === undefined || (edge.from !== node.id && edge.to !== node.id)) return [];
      const id = String(edge.index);
      targets.set(id, { kind: "edge", graph: edge.graph, index: edge.index });
      return [{ id, text: texts.edgeName(edge.from, edge.to), hint: edge.port }];
    });
    return { items, targets };
  };
  const edges = (): void => {
    const key = commands.subject();
    const node = commands.node(key);
    if (node === undefined) {
      commands.say(texts.nothingSelected);
      return;
    }
    const { items, targets } = edgeItems(key);
    if (!items.length) {
      commands.say(texts.noEdges(node.id));
      return;
    }
    open(ui, {
      kind: "list",
      label: texts.edgesOf(node.id),
      items,
      at: beside(key),
      choose: (id) => {
        const target = targets.get(id);
        if (target) editor.getState().select([target]);
      },
    });
  };

  const moveEnd = (edge: EdgeTarget, end: "from" | "to", at: Point): void => {
    open(ui, {
      kind: "list",
      label: end === "to" ? texts.reconnectTo : texts.reconnectFrom,
      items: nodeItems(edge.graph),
      at,
      choose: (key) => commands.reconnectEnd(edge, end, key),
    });
  };
  const changePort = (edge: EdgeTarget, at: Point): void => {
    const item = now().graphs.get(edge.graph)?.edges[edge.index];
    const source = now().graphs.get(edge.graph)?.nodes.find((node) => node.id === item?.from);
    if (source) choosePort(source.key, at, (port) => commands.setPort(edge, port), true);
  };

  const cap = (region: string, at: Point): void => {
    const found = ui.getState().scene?.loops.get(region);
    const entry = commands.node(found?.region.entry ?? "");
    if (found === undefined || entry === undefined || !commands.mayEdit) return;
    open(ui, {
      kind: "prompt",
      label: texts.capOf(entry.id),
      value: "10",
      isNumber: true,
      at,
      done: (value) => commands.setCap(entry.key, Number(value)),
    });
  };

  const find = (goTo: (key: string) => void): void => {
    const choose = (key: string) => {
      editor.getState().openAround([{ kind: "node", key }]);
      goTo(key);
    };
    open(ui, { kind: "list", label: texts.search, items: nodeItems(), at: beside(""), choose });
  };

  /** All actions that fit what is selected. */
  const menu = (at: Point): void => {
    const edge = commands.selectedNodes().length ? undefined : commands.selectedEdge();
    const key = edge ? "" : commands.subject();
    const { scene, targets } = ui.getState();
    const isOff = !commands.mayEdit;
    const actions = new Map<string, Item & { action: () => void }>();
    const put = (id: string, text: string, keys: string, action: () => void, more: Partial<Item> = {}) =>
      actions.set(id, { id, text, keys, action, isDisabled: isOff, ...more });
    if (!edge) put("add", key ? texts.addAfter : texts.addFirst, "A", add, { icon: "plus" });
    if (key) {
      put("connect", texts.connect, "C", connect, { icon: "flow" });
      put("edges", texts.edges, "E", edges, { icon: "list", isDisabled: false });
      put("rename", texts.rename, "F2", () => rename(key), { icon: "edit" });
      put("start", texts.isStart, "", () => commands.setEnds("start", key), { icon: isEnd("start", key) ? "check" : undefined });
      put("end", texts.isEnd, "", () => commands.setEnds("end", key), { icon: isEnd("end", key) ? "check" : undefined });
    }
    const drawnNode = scene?.byKey.get(key);
    if (drawnNode?.region) put("toggle", texts.close, ".", () => commands.toggle(key), { icon: "down", isDisabled: false });
    if (drawnNode?.inside) put("toggle", texts.open, ".", () => commands.toggle(key), { icon: "right", isDisabled: false });
    if (edge) {
      put("to", texts.reconnectTo, "", () => moveEnd(edge, "to", at), { icon: "flow" });
      put("from", texts.reconnectFrom, "", () => moveEnd(edge, "from", at), { icon: "flow" });
      put("port", texts.changePort, "", () => changePort(edge, at), { icon: "exit" });
    }
    if (commands.fixable()) put("fix", texts.fix, "F", () => commands.fix(), { icon: "shield" });
    if (commands.selectedNodes().length > 1) for (const how of ALIGNMENTS) put(how, texts[how], "", () => commands.align(how));
    if (key || edge) {
      put("copy", texts.copy, "Ctrl C", () => void copyAside(), { icon: "copy", isDisabled: false });
      put("cut", texts.cut, "Ctrl X", () => void copyAside().then(commands.removeSelected));
    }
    put("paste", texts.paste, "Ctrl V", () => void pasteAside());
    if (key) put("duplicate", texts.duplicate, "Ctrl D", commands.duplicate);
    if (key && storedPlaces(now()).has(key)) put("forget", texts.forget, "", () => commands.move(new Map([[key, null]])));
    if (scene?.drawing.nodes.some((one) => one.region)) put("closeAll", texts.closeAll, "", () => commands.toggleAll(true), { isDisabled: false });
    if (scene?.drawing.nodes.some((one) => one.inside)) put("openAll", texts.openAll, "", () => commands.toggleAll(false), { isDisabled: false });
    put("all", texts.selectAll, "Ctrl A", commands.selectAll, { isDisabled: false });
    if (key || edge) put("remove", texts.remove, "Delete", commands.removeSelected, { icon: "trash", isDanger: true });
    const drawn = edge && scene ? lineOf(scene.lines, targets, edge) : undefined;
    const label = commands.node(key)?.id ?? (drawn ? texts.edgeName(drawn.drawn.source, drawn.drawn.target) : texts.actions);
    open(ui, { kind: "menu", label, items: [...actions.values()], at, choose: (id) => actions.get(id)?.action() });
  };
  const isEnd = (name: "start" | "end", key: string): boolean => {
    const node = commands.node(key);
    return node !== undefined && (now().graphs.get(node.graph)?.[name].includes(node.id) ?? false);
  };
  /** Without a key press the browser may refuse the clipboard; the copy of this page holds then. */
  const copyAside = async (): Promise<void> => {
    const text = commands.copyText();
    if (text === null) return;
    await navigator.clipboard?.writeText(text).catch(() => undefined);
  };
  const pasteAside = async (): Promise<void> => {
    const text = await navigator.clipboard?.readText().catch(() => "");
    commands.pasteText(text || ui.getState().clipboard);
  };

  return { rename, chooseType, add, choosePort, connect, edges, cap, find, menu, menuAtCursor: () => menu(beside(commands.subject())) };
}
