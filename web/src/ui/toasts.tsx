// Short notes about what was done, or failed. They stay until they are read: errors until they are closed.
import { create } from "zustand";
import { catalogue, useMessages } from "../i18n/messages";
import { Button } from "./Button";
import "./toasts.css";

interface Toast {
  id: number;
  text: string;
  kind: "done" | "failed";
}

const useToasts = create<{ toasts: Toast[] }>(() => ({ toasts: [] }));
const messages = catalogue({ dismiss: "Dismiss" }, { dismiss: "关闭" });
let next = 1;

export function toast(text: string, kind: Toast["kind"] = "done"): void {
  const id = next++;
  useToasts.setState(({ toasts }) => ({ toasts: [...toasts.slice(-3), { id, text, kind }] }));
  if (kind === "done") setTimeout(() => dismiss(id), 5000);
}

export function toastError(error: unknown): void {
  toast(error instanceof Error ? error.message : String(error), "failed");
}

function dismiss(id: number): void {
  useToasts.setState(({ toasts }) => ({ toasts: toasts.filter((one) => one.id !== id) }));
}

export function Toasts() {
  const texts = useMessages(messages);
  const toasts = useToasts((state) => state.toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((one) => (
        <div key={one.id} className={`toast toast-${one.kind}`}>
          <span>{one.text}</span>
          <Button kind="quiet" icon="close" aria-label={texts.dismiss} onClick={() => dismiss(one.id)} />
        </div>
      ))}
    </div>
  );
}
