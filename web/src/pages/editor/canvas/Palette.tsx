// The types of nodes that the server has. One is dragged to the canvas, or added by a click or Enter behind what is selected.
import { useRef, useState, type CSSProperties, type KeyboardEvent } from "react";
import { Icon, nodeLook } from "../../../ui/Icon";
import { GROUPS, groupOf, matching, type NodeType } from "./node_types";
import { ToolsContext, useNewTools, useTools } from "./tools";
import "../../../graph/node_card.css";
import "./palette.css";

/** What is dragged from the palette. */
export const NODE_TYPE = "application/x-roundel-node-type";

export function Palette() {
  const tools = useNewTools();
  return (
    <ToolsContext value={tools}>
      <Types />
    </ToolsContext>
  );
}

function Types() {
  const { texts, types, commands } = useTools();
  const [search, setSearch] = useState("");
  const [cursor, setCursor] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const found = matching(types, search);
  const groups = GROUPS.map((group) => ({ group, inside: found.filter((type) => groupOf(type.name) === group) })).filter((one) => one.inside.length);
  const order = groups.flatMap((one) => one.inside);
  const first = order.some((type) => type.name === cursor) ? cursor : (order[0]?.name ?? "");
  const add = useAdd();

  const focus = (name: string | undefined) => {
    if (name === undefined) return;
    setCursor(name);
    list.current?.querySelector<HTMLElement>(`[data-type="${CSS.escape(name)}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = order.findIndex((type) => type.name === first);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: order.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    focus(order[Math.min(order.length - 1, Math.max(0, next))]?.name);
  };
  return (
    <nav className="palette" aria-label={texts.palette}>
      <div className="palette-search">
        <Icon name="search" size={14} />
        <input
          type="search"
          id="palette-search"
          placeholder={texts.addNode}
          aria-label={texts.addNode}
          aria-keyshortcuts="A"
          disabled={!commands.mayEdit}
          value={search}
          onChange={(event) => setSearch(event.target.value)}
          onKeyDown={(event) => {
            const [best] = found;
            if (event.key === "Enter" && best) {
              event.preventDefault();
              setSearch("");
              add(best.name);
            } else if (event.key === "ArrowDown") {
              event.preventDefault();
              focus(order[0]?.name);
            } else if (event.key === "Escape" && search) {
              event.stopPropagation();
              setSearch("");
            }
          }}
        />
        <kbd className="key" aria-hidden="true">
          A
        </kbd>
      </div>
      <div ref={list} className="palette-groups" onKeyDown={onKeyDown}>
        {groups.map(({ group, inside }) => (
          <section key={group} aria-labelledby={`palette-${group}`}>
            <h2 id={`palette-${group}`}>{texts[group]}</h2>
            {inside.map((type) => (
              <TypeButton key={type.name} type={type} isFirst={type.name === first} onAdd={add} />
            ))}
          </section>
        ))}
        {!found.length && types.length > 0 && <p className="palette-none">{texts.noType}</p>}
      </div>
    </nav>
  );
}

/** Adds a node behind the selected one, or at the end; then its name can be typed. */
function useAdd(): (type: string) => void {
  const { commands, dialogs } = useTools();
  return (type) => {
    const [only, ...others] = commands.selectedNodes();
    const key = commands.add(type, only !== undefined && !others.length ? { after: only } : { graph: commands.graphNow() });
    if (key) dialogs.rename(key);
  };
}

function TypeButton({ type, isFirst, onAdd }: { type: NodeType; isFirst: boolean; onAdd: (type: string) => void }) {
  const { commands } = useTools();
  const look = nodeLook(type.name);
  return (
    <button
      type="button"
      className="palette-type"
      data-type={type.name}
      title={`${type.title}: ${type.description}`}
      tabIndex={isFirst ? 0 : -1}
      disabled={!commands.mayEdit}
      draggable={commands.mayEdit}
      style={{ "--kind": look.color } as CSSProperties}
      onClick={() => onAdd(type.name)}
      onDragStart={(event) => {
        event.dataTransfer.setData(NODE_TYPE, type.name);
        event.dataTransfer.effectAllowed = "copy";
      }}
    >
      <span className="graph-tile palette-tile">
        <Icon name={look.icon} size={14} />
      </span>
      <span className="ellipsis">{type.name}</span>
    </button>
  );
}
