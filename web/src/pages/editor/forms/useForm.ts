// Connects a form with the editor: what it shows, and how its edits get into the text.
import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { call } from "../../../api/client";
import type { ModelList, ToolList } from "../../../api/schema";
import { setValues } from "../../../document/edits";
import type { Path, Span, Target } from "../../../document/model";
import { spanOf } from "../../../document/read";
import { useEditor, useEditorStore, type EditorStore } from "../store";
import { useEditorUi } from "../ui";
import type { Catalogue } from "./catalogue";
import type { Form, Writes } from "./context";
import { namesOf, pathOf, valueAt, type Offered } from "./graphs";
import { exchanged, renamedKey } from "./lists";
import { mergeValues, placeName } from "./merged";
import type { Mapping } from "./values";
import { fieldWriter } from "./write";

/** What the server offers, for the names in fields. A form works without it. */
function useOffered(): Offered {
  const tools = useQuery({ queryKey: ["tools"], queryFn: () => call<ToolList>("/tools"), staleTime: 60_000, retry: false });
  const models = useQuery({ queryKey: ["models"], queryFn: () => call<ModelList>("/models"), staleTime: 60_000, retry: false });
  return useMemo(
    () => ({
      functions: tools.data?.functions.map((one) => one.name).filter((name) => !name.endsWith("*")) ?? [],
      providers: [...new Set(models.data?.models.map((one) => one.provider) ?? [])],
    }),
    [tools.data, models.data],
  );
}

/** Null if none of the items is there. All of them get each edit. */
export function useFormOf(catalogue: Catalogue, targets: readonly Target[]): { form: Form; value: Mapping } | null {
  const store = useEditorStore();
  const document = useEditor((state) => state.lastGood);
  const offered = useOffered();
  // Defaults that somebody has written out stay written.
  const kept = useRef(new Set<string>());
  return useMemo(() => {
    const found = targets.filter((target) => pathOf(document, target) !== null);
    const [first] = found;
    if (first === undefined) return null;
    const { value, mixed } = mergeValues(found.map((target) => valueAt(document, target) ?? {}));
    const write = (values: Writes) => {
      const now = store.getState();
      if (now.document.errors.length > 0) return;
      const all = found.flatMap((target) => {
        const path = pathOf(now.lastGood, target);
        return path === null ? [] : values.map(([at, one]) => [[...path, ...at], one] as const);
      });
      now.edit({ changes: setValues(now.lastGood, all) });
    };
    const edit = (changes: ReturnType<typeof exchanged>) => store.getState().edit({ changes });
    const path = pathOf(document, first) ?? [];
    const form: Form = {
      catalogue,
      document,
      targets: found,
      path,
      names: namesOf(document, first, catalogue, offered),
      write,
      set: fieldWriter(
        write,
        (at, isPreset) => {
          if (isPreset) kept.current.add(placeName(at));
          return kept.current.has(placeName(at));
        },
        found.length === 1,
      ),
      exchange: (one, other) => edit(exchanged(store.getState().lastGood, [...path, ...one], [...path, ...other])),
      renameKey: (at, from, to) => edit(renamedKey(store.getState().lastGood, [...path, ...at], from, to)),
      isMixed: (at) => mixed.has(placeName(at)),
      reveal: (at) => reveal(store, nearest(document, [...path, ...at])),
      select: (target) => store.getState().select([target]),
    };
    return { form, value };
  }, [catalogue, document, targets, offered, store]);
}

/** Where a value is written, or else what is around it. */
function nearest(document: Form["document"], path: Path): Span {
  for (let length = path.length; length >= 0; length--) {
    const span = spanOf(document, path.slice(0, length));
    if (span) return span;
  }
  return { from: 0, to: 0 };
}

/** Shows a place in the YAML view, with the cursor there. */
export function reveal(store: EditorStore, span: Span): void {
  useEditorUi.getState().show("yaml");
  const { state, apply } = store.getState();
  const at = Math.min(span.from, state.doc.length);
  apply([state.update({ selection: { anchor: at }, scrollIntoView: true })]);
  requestAnimationFrame(() => window.document.querySelector<HTMLElement>(".editor-pane-yaml .cm-content")?.focus());
}
