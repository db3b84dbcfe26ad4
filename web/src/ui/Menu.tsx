// A button that opens a menu. Arrow keys move in it, Escape and a click elsewhere close it.
import { useEffect, useId, useRef, useState } from "react";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";
import "./menu.css";

export interface MenuItem {
  text: string;
  icon: IconName;
  action: () => void;
  isDanger?: boolean;
  /** On wide pages there is a button for it. */
  isForPhones?: boolean;
}

export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const frame = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    visibleItems(frame.current)[0]?.focus();
    const close = (event: PointerEvent) => {
      if (!frame.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [isOpen]);
  const leave = () => {
    setOpen(false);
    button.current?.focus();
  };
  const move = (event: React.KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      leave();
      return;
    }
    if (event.key === "Tab") {
      setOpen(false);
      return;
    }
    const all = visibleItems(frame.current);
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    all[next % all.length]?.focus();
  };
  return (
    <div className="menu" ref={frame}>
      <Button
        ref={button}
        kind="quiet"
        icon="more"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => setOpen(!isOpen)}
      />
      {isOpen && (
        <div className="menu-items" role="menu" id={id} aria-label={label} onKeyDown={move}>
          {items.map((item) => (
            <button
              key={item.text}
              type="button"
              role="menuitem"
              tabIndex={-1}
              className={`menu-item ${item.isDanger ? "menu-danger" : ""} ${item.isForPhones ? "menu-phone" : ""}`}
              onClick={() => {
                leave();
                item.action();
              }}
            >
              <Icon name={item.icon} />
              {item.text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Items for phones are hidden on wide pages. */
function visibleItems(frame: HTMLElement | null): HTMLElement[] {
  const all = [...(frame?.querySelectorAll<HTMLElement>('[role="menuitem"]') ?? [])];
  return all.filter((item) => item.offsetParent !== null);
}
