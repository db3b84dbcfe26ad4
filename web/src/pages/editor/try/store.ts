// What an editor is tried with, and the run that it was tried in last. It lasts while the pane is closed.
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";
import { keep, readKeptObject } from "../../../ui/kept";
import type { Refusal } from "../../start/start";
import { useEditorStore, type EditorStore } from "../store";
import type { Live } from "./live";

/** A run of a text of the editor. */
export interface Attempt {
  id: string;
  text: string;
  /** The keys of its nodes that repeat what is inside them. */
  composites: ReadonlySet<string>;
}

/** What is kept in the browser for a saved workflow. Null for what the page suggests. */
interface Kept {
  input: string | null;
  script: string | null;
  /** Only those that were changed. */
  variables: Record<string, string>;
}

export type Action = "run" | "paused" | "step" | "step-round" | "resume" | "pause" | "stop" | "script";

export interface Trying extends Kept {
  /** Models are called, and there is no script. */
  usesModels: boolean;
  attempt: Attempt | null;
  /** The events of the attempt while the pane is open. */
  live: Live | null;
  /** What runs next while it is paused, by the key of the node. */
  ready: ReadonlyMap<string, "next" | "held">;
  /** The request that is on its way. */
  busy: Action | null;
  /** Why the server did not start the run. */
  refusal: Refusal | null;
}

export const NOT_READY: Trying["ready"] = new Map();

export type TryStore = StoreApi<Trying>;

const made = new WeakMap<EditorStore, TryStore>();

function keyOf(editor: EditorStore): string | null {
  const { saved } = editor.getState();
  return saved === null ? null : `roundel.try.${saved.group}/${saved.name}`;
}

export function tryOf(editor: EditorStore): TryStore {
  const known = made.get(editor);
  if (known !== undefined) return known;
  const key = keyOf(editor);
  const store = createStore<Trying>(() => ({
    ...read(key),
    usesModels: false,
    attempt: null,
    live: null,
    ready: NOT_READY,
    busy: null,
    refusal: null,
  }));
  const write = () => {
    const place = keyOf(editor);
    const { input, script, variables } = store.getState();
    if (place !== null) keep("browser", place, JSON.stringify({ input, script, variables } satisfies Kept));
  };
  store.subscribe((now, before) => {
    if (now.input !== before.input || now.script !== before.script || now.variables !== before.variables) write();
  });
  editor.subscribe((now, before) => {
    if (now.saved?.name !== before.saved?.name) write();
  });
  made.set(editor, store);
  return store;
}

function read(key: string | null): Kept {
  const found = key === null ? null : readKeptObject<Kept>("browser", key);
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  const variables = Object.entries(found?.variables ?? {}).filter(([, value]) => typeof value === "string");
  return { input: text(found?.input), script: text(found?.script), variables: Object.fromEntries(variables) };
}

export function useTryStore(): TryStore {
  return tryOf(useEditorStore());
}

export function useTrying<T>(select: (trying: Trying) => T): T {
  return useStore(useTryStore(), select);
}
