// What is selected: its icon, name, type and lines, and what can be done with it.
import { useState } from "react";
import { copied, paste, remove, rename } from "../../../document/edits";
import type { Target } from "../../../document/model";
import { linesOf } from "../../../document/read";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { Menu, type MenuItem } from "../../../ui/Menu";
import { toastError } from "../../../ui/toasts";
import { useEditor, useEditorStore } from "../store";
import { TextInput } from "./fields/TextInput";
import { graphOf } from "./graphs";
import { messages } from "./messages";

export function FormHead({ targets, title, type }: { targets: readonly Target[]; title: string; type: string }) {
  const texts = useMessages(messages);
  const store = useEditorStore();
  const document = useEditor((state) => state.lastGood);
  const isReadOnly = useEditor((state) => state.isReadOnly || state.document.errors.length > 0);
  const [isRenaming, setRenaming] = useState(false);
  const [target] = targets;
  const isOne = targets.length === 1;
  const node = isOne && target?.kind === "node" ? document.nodes.get(target.key) : undefined;
  const lines = isOne && target ? linesOf(document, target) : null;
  const canRemove = target !== undefined && targets.every((one) => one.kind === "node" || one.kind === "edge");
  const ids = node ? (document.graphs.get(node.graph)?.nodes.map((one) => one.id) ?? []) : [];

  const duplicate = () => {
    const graph = target && graphOf(document, target);
    if (!graph) return;
    try {
      store.getState().edit(paste(document, graph.key, copied(document, targets)));
    } catch (error) {
      toastError(error);
    }
  };
  const items: MenuItem[] = [
    ...(node ? [{ text: texts.rename, icon: "edit" as const, action: () => setRenaming(true) }] : []),
    ...(canRemove && target.kind === "node" ? [{ text: texts.duplicate, icon: "copy" as const, action: duplicate }] : []),
    ...(canRemove ? [{ text: texts.remove, icon: "trash" as const, isDanger: true, action: () => store.getState().edit(remove(document, targets)) }] : []),
  ];
  const look = node ? nodeLook(node.type) : { icon: iconOf(targets), color: "var(--flow)" };
  return (
    <header className="editor-head form-head">
      <span className="form-icon" style={{ color: look.color }}>
        <Icon name={look.icon} />
      </span>
      {isRenaming && node ? (
        <div
          className="form-rename"
          onBlur={() => setRenaming(false)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setRenaming(false);
          }}
        >
          <TextInput
            autoFocus
            isPatient
            label={texts.newName}
            value={node.id}
            check={(text) => (text !== node.id && ids.includes(text.trim()) ? texts.isTaken : null)}
            onWrite={(text) => {
              const id = text.trim();
              if (id === "" || ids.includes(id)) return false;
              setRenaming(false);
              store.getState().edit(rename(store.getState().lastGood, node.key, id));
            }}
          />
        </div>
      ) : (
        <>
          <h2 className="ellipsis">{title}</h2>
          <span className="form-dim">{type}</span>
        </>
      )}
      {lines && !isRenaming && (
        <span className="form-lines">{lines.first === lines.last ? texts.line(lines.first) : texts.lines(lines.first, lines.last)}</span>
      )}
      {items.length > 0 && !isReadOnly && <Menu label={texts.itemMenu} items={items} />}
    </header>
  );
}

function iconOf(targets: readonly Target[]) {
  const kinds = new Set(targets.map((target) => target.kind));
  if (kinds.size > 1 || targets.length > 1) return "list" as const;
  return kinds.has("edge") ? ("flow" as const) : ("subgraph" as const);
}
