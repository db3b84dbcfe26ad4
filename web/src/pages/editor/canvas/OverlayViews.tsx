// What opens above the panes: a list to search and choose from, a menu of actions, a field for a name or a number.
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState, type CSSProperties, type KeyboardEvent, type ReactNode } from "react";
import type { Point } from "../../../graph/scene";
import { Icon } from "../../../ui/Icon";
import type { Item, Overlay } from "./ui";

/** Closes what is open; the focus returns to where it was, unless it is kept. */
type Close = (isFocusKept?: boolean) => void;

/** The canvas passes what this needs of it: a module that both import would become one more file. */
export default function OverlayView({ overlay, close, nothing }: { overlay: Overlay; close: Close; nothing: string }) {
  switch (overlay.kind) {
    case "list":
      return <SearchList key={overlay.label} overlay={overlay} close={close} nothing={nothing} />;
    case "menu":
      return <ActionMenu overlay={overlay} close={close} />;
    case "prompt":
      return <Prompt key={overlay.label} overlay={overlay} close={close} />;
  }
}

/** A box at a place in the window, moved so that all of it is seen. A press elsewhere closes it. */
function Floating({ at, label, close, children, className = "" }: { at: Point; label?: string; close: Close; children: ReactNode; className?: string }) {
  const ref = useRef<HTMLDivElement>(null);
  const closing = useRef(close);
  closing.current = close;
  const [place, setPlace] = useState<CSSProperties>({ left: at.x, top: at.y });
  useLayoutEffect(() => {
    const box = ref.current?.getBoundingClientRect();
    if (!box) return;
    setPlace({
      left: Math.max(8, Math.min(at.x, innerWidth - box.width - 8)),
      top: Math.max(8, Math.min(at.y, innerHeight - box.height - 8)),
    });
  }, [at.x, at.y]);
  useEffect(() => {
    const press = (event: PointerEvent) => {
      if (ref.current?.contains(event.target as Node)) return;
      closing.current(true);
    };
    document.addEventListener("pointerdown", press, true);
    return () => document.removeEventListener("pointerdown", press, true);
  }, []);
  return (
    <div ref={ref} className={`canvas-floating ${className}`} style={place} role={label ? "dialog" : undefined} aria-label={label}>
      {children}
    </div>
  );
}

function Look({ item }: { item: Item }) {
  return (
    <>
      {item.icon ? (
        <span className={item.color ? "graph-tile graph-tile-small" : "canvas-item-icon"} style={{ "--kind": item.color } as CSSProperties}>
          <Icon name={item.icon} size={item.color ? 12 : 14} />
        </span>
      ) : (
        <span className="canvas-item-icon" />
      )}
      <span className="canvas-item-text ellipsis">{item.text}</span>
      {item.hint && <span className="canvas-item-hint ellipsis">{item.hint}</span>}
    </>
  );
}

function SearchList({ overlay, close, nothing }: { overlay: Extract<Overlay, { kind: "list" }>; close: Close; nothing: string }) {
  const [search, setSearch] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const found = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = overlay.items.filter((item) => words.every((word) => `${item.text} ${item.hint ?? ""}`.toLowerCase().includes(word)));
    const begins = (item: Item) => (item.text.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
    return words.length ? fits.toSorted((one, other) => begins(one) - begins(other)) : fits;
  }, [overlay.items, search]);
  useEffect(() => {
    list.current?.querySelector(`[aria-selected="true"]`)?.scrollIntoView({ block: "nearest" });
  }, [at, found]);
  const choose = (item: Item | undefined) => {
    if (item === undefined) return;
    close();
    overlay.choose(item.id);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const last = found.length - 1;
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      setAt(Math.min(last, Math.max(0, next)));
    } else if (event.key === "Enter" && !event.nativeEvent.isComposing) {
      event.preventDefault();
      choose(found[at]);
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      close();
    }
  };
  const isGrouped = !search && found.some((item) => item.group);
  return (
    <Floating at={overlay.at} label={overlay.label} close={close}>
      <div className="canvas-search">
        <Icon name="search" size={14} />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={found[at] ? `${id}-${at}` : undefined}
          aria-label={overlay.label}
          placeholder={overlay.label}
          value={search}
          onChange={(event) => {
            setSearch(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div ref={list} className="canvas-items" role="listbox" id={id} aria-label={overlay.label}>
        {found.map((item, index) => (
          <div key={item.id} role="none">
            {isGrouped && item.group !== found[index - 1]?.group && (
              <div className="canvas-item-group" role="presentation">
                {item.group}
              </div>
            )}
            <div
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              className="canvas-item"
              onPointerMove={() => setAt(index)}
              onClick={() => choose(item)}
            >
              <Look item={item} />
            </div>
          </div>
        ))}
        {!found.length && <p className="canvas-none">{nothing}</p>}
      </div>
    </Floating>
  );
}

function ActionMenu({ overlay, close }: { overlay: Extract<Overlay, { kind: "menu" }>; close: Close }) {
  const menu = useRef<HTMLDivElement>(null);
  useEffect(() => {
    menu.current?.querySelector<HTMLElement>("button:not(:disabled)")?.focus();
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      close();
      return;
    }
    const all = [...(menu.current?.querySelectorAll<HTMLElement>("button:not(:disabled)") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    all[next % all.length]?.focus();
  };
  return (
    <Floating at={overlay.at} close={close}>
      <div ref={menu} role="menu" aria-label={overlay.label} className="canvas-items" onKeyDown={onKeyDown}>
        {overlay.items.map((item) => (
          <button
            key={item.id}
            type="button"
            role="menuitem"
            tabIndex={-1}
            disabled={item.isDisabled}
            className={`canvas-item ${item.isDanger ? "canvas-item-danger" : ""}`}
            onClick={() => {
              close();
              overlay.choose(item.id);
            }}
          >
            <Look item={item} />
            {item.keys && <kbd className="canvas-item-keys">{item.keys}</kbd>}
          </button>
        ))}
      </div>
    </Floating>
  );
}

function Prompt({ overlay, close }: { overlay: Extract<Overlay, { kind: "prompt" }>; close: Close }) {
  const [value, setValue] = useState(overlay.value);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  // A press elsewhere takes the value, too.
  const done: Close = (isFocusKept) => {
    close(isFocusKept);
    overlay.done(value);
  };
  return (
    <Floating at={overlay.at} label={overlay.label} close={done} className="canvas-prompt">
      <input
        ref={field}
        className="input"
        aria-label={overlay.label}
        type={overlay.isNumber ? "number" : "text"}
        min={overlay.isNumber ? 1 : undefined}
        value={value}
        onChange={(event) => setValue(event.target.value)}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.nativeEvent.isComposing) return;
          if (event.key === "Enter") {
            event.preventDefault();
            done();
          } else if (event.key === "Escape") {
            event.preventDefault();
            close();
          }
        }}
      />
    </Floating>
  );
}
