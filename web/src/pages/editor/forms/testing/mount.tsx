// Forms in a test: over a real editor, with the descriptions of the server.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { createEditor, EditorContext, type EditorStore } from "../../store";
import type { Catalogue } from "../catalogue";
import { FormContext, type Form, type Writes } from "../context";
import { fieldWriter } from "../write";
import text from "./node_types.json?raw";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

/** As the server gives it, in English; `tests/web/test_editor_forms.py` compares. */
export const CATALOGUE = JSON.parse(text) as Catalogue;

/** An editor that asks no server. */
export function editorOf(source: string): EditorStore {
  const store = createEditor(source, null);
  store.getState().close();
  return store;
}

export interface Mounted {
  element: HTMLElement;
  store: EditorStore;
  show: (content: ReactNode) => void;
  end: () => void;
}

export function mount(store: EditorStore, content: ReactNode): Mounted {
  const element = document.createElement("div");
  document.body.append(element);
  const root = createRoot(element);
  const client = new QueryClient({ defaultOptions: { queries: { enabled: false } } });
  client.setQueryData(["node-types", "en"], CATALOGUE);
  const show = (inner: ReactNode) =>
    act(() =>
      root.render(
        <QueryClientProvider client={client}>
          <EditorContext value={store}>{inner}</EditorContext>
        </QueryClientProvider>,
      ),
    );
  show(content);
  return {
    element,
    store,
    show,
    end: () => {
      act(() => root.unmount());
      element.remove();
      store.getState().close();
    },
  };
}

/** A form that only notes what is written. */
export function recordingForm(store: EditorStore): { form: Form; writes: Writes[] } {
  const writes: Writes[] = [];
  const write = (values: Writes) => void writes.push(values);
  const form: Form = {
    catalogue: CATALOGUE,
    document: store.getState().lastGood,
    targets: [{ kind: "workflow" }],
    path: [],
    names: { nodes: ["A"], ports: [{ name: "error", title: "error" }], models: ["m"], tools: ["t"], memories: ["n"], functions: ["f"], providers: [] },
    write,
    set: fieldWriter(write, () => false),
    exchange: () => undefined,
    renameKey: () => undefined,
    isMixed: () => false,
    reveal: () => undefined,
    select: () => undefined,
  };
  return { form, writes };
}

export function withForm(form: Form, content: ReactNode): ReactNode {
  return <FormContext value={form}>{content}</FormContext>;
}

type Typed = HTMLInputElement | HTMLTextAreaElement;

/** Types a text into a field, and leaves it. */
export function type(field: Element, value: string, leaves = true): void {
  const input = field as Typed;
  const proto = Object.getPrototypeOf(input) as object;
  act(() => {
    input.focus();
    Object.getOwnPropertyDescriptor(proto, "value")?.set?.call(input, value);
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  if (leaves) act(() => input.blur());
}

export function choose(field: Element, value: string): void {
  const select = field as HTMLSelectElement;
  act(() => {
    select.value = value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

export function click(element: Element | null | undefined): void {
  if (!(element instanceof HTMLElement)) throw new Error("there is nothing to click");
  act(() => element.click());
}

/** Waits for forms that are loaded when they are first shown. */
export async function loaded(): Promise<void> {
  await act(async () => {
    await import("../settings/SettingsForm");
    await new Promise((resolve) => setTimeout(resolve, 0));
  });
}

export function press(element: Element, key: string): void {
  act(() => {
    element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  });
}

/** The control with this label. */
export function labelled(root: Element, label: string): HTMLElement {
  const own = [...root.querySelectorAll<HTMLElement>("[aria-label]")].find((one) => one.getAttribute("aria-label") === label && one.matches("input, select, textarea, [role=switch], [role=radio], button"));
  if (own) return own;
  for (const one of root.querySelectorAll("label")) {
    const found = one.textContent === label && one.htmlFor ? document.getElementById(one.htmlFor) : null;
    if (found) return found;
  }
  throw new Error(`there is no control ${label}`);
}
