// Saving, and everything around it: names, conflicts, versions, and not losing anything.
import { useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../../../api/client";
import { guardLeaving } from "../../../app/leaving";
import { messagesNow } from "../../../i18n/messages";
import { toast, toastError } from "../../../ui/toasts";
import { chooseFiles } from "../../workflows/import/files";
import { editorPath } from "../../workflows/shared";
import { isUnsaved, type EditorStore, type Saved } from "../store";
import { dropKept, keepText, readKept, type Kept } from "./kept";
import { actions, type MenuAction } from "./menu";
import { messages } from "./messages";
import { readNewer, readSaved, storeText, type Theirs } from "./requests";

export type SaveDialog =
  | { kind: "name"; isCopy: boolean; error: string }
  /** `theirs` is null if the workflow was deleted. */
  | { kind: "conflict"; theirs: Theirs | null }
  | { kind: "versions" }
  | { kind: "leave"; go: () => void }
  | { kind: "kept"; kept: Kept }
  | { kind: "import"; files: readonly File[] };

export interface Saving {
  isBusy: boolean;
  dialog: SaveDialog | null;
  /** The newer version that somebody else has saved meanwhile. */
  newer: Theirs | null;
  /** Text of an earlier visit that was never saved. */
  kept: Kept | null;
  actions: readonly MenuAction[];
  save: () => void;
  saveAs: (name: string) => void;
  /** Saves on top of what somebody else has saved; as a new workflow if it was deleted. */
  overwrite: (theirs: Theirs | null) => void;
  /** Replaces the text; undo brings the own one back. */
  take: (theirs: Theirs) => void;
  restore: (text: string, note: string) => void;
  dismissKept: () => void;
  dismissNewer: () => void;
  show: (dialog: SaveDialog) => void;
  showVersions: () => void;
  close: () => void;
}

export function useSaving(store: EditorStore, onNamed: (saved: Saved) => void): Saving {
  const [isBusy, setBusy] = useState(false);
  const [dialog, setDialog] = useState(() => firstDialog(store));
  const [newer, setNewer] = useState<Theirs | null>(null);
  const [kept, setKept] = useState<Kept | null>(() => (store.getState().isReadOnly ? null : readKept(store.getState().saved)));
  const isSaving = useRef(false);

  useEffect(() => (store.getState().isReadOnly ? undefined : keepText(store)), [store]);
  useLeaving(store, (go) => setDialog({ kind: "leave", go }));
  useNewer(store, setNewer);

  const put = async (name: string, group: string | null, etag: string | null, onStale: (error: ApiError) => Promise<void> | void) => {
    if (isSaving.current || store.getState().isReadOnly) return;
    isSaving.current = true;
    setBusy(true);
    const texts = messagesNow(messages);
    const { text } = store.getState();
    try {
      const { saved, result } = await storeText(name, group, text, etag);
      const isOther = store.getState().saved?.name !== saved.name || store.getState().saved?.group !== saved.group;
      store.getState().setSaved(saved);
      setNewer(null);
      setDialog(null);
      toast(result.draft ? texts.savedDraft(saved.version, result.errors) : texts.savedVersion(saved.version));
      if (isOther) {
        onNamed(saved);
        // Not by the router, which would ask whether to leave what was typed meanwhile.
        history.replaceState(null, "", editorPath(saved));
      }
    } catch (error) {
      const isStale = error instanceof ApiError && (error.status === 412 || (error.status === 404 && etag !== null));
      if (isStale) await onStale(error);
      else toastError(error);
    } finally {
      isSaving.current = false;
      setBusy(false);
    }
  };
  const conflict = async (saved: Saved) => {
    try {
      setDialog({ kind: "conflict", theirs: await readSaved(saved.name, saved.group || null) });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) setDialog({ kind: "conflict", theirs: null });
      else toastError(error);
    }
  };
  const own: readonly MenuAction[] = useMemo(
    () => [
      {
        text: { en: messages.en.saveCopy, zh: messages.zh.saveCopy },
        icon: "copy",
        isForAuthors: true,
        run: () => setDialog({ kind: "name", isCopy: true, error: "" }),
      },
      {
        text: { en: messages.en.discard, zh: messages.zh.discard },
        icon: "undo",
        isForAuthors: true,
        run: ({ getState }) => getState().replace(getState().saved?.text ?? ""),
      },
      {
        text: { en: messages.en.import, zh: messages.zh.import },
        icon: "raise",
        isForAuthors: true,
        run: () => chooseFiles((files) => setDialog({ kind: "import", files })),
      },
    ],
    [],
  );
  return {
    isBusy,
    dialog,
    newer,
    kept,
    actions: [...own, ...actions],
    save: () => {
      const { saved } = store.getState();
      if (saved === null) setDialog({ kind: "name", isCopy: false, error: "" });
      else void put(saved.name, saved.group || null, saved.etag, () => conflict(saved));
    },
    saveAs: (name) => {
      const group = store.getState().saved?.group || null;
      void put(name, group, null, () =>
        setDialog((now) => ({ kind: "name", isCopy: now?.kind === "name" && now.isCopy, error: messagesNow(messages).taken(name) })),
      );
    },
    overwrite: (theirs) => {
      const { saved } = store.getState();
      if (saved) void put(saved.name, saved.group || null, theirs?.etag ?? null, () => conflict(saved));
    },
    take: (theirs) => {
      store.getState().setSaved(theirs);
      store.getState().replace(theirs.text);
      setNewer(null);
      setDialog(null);
      toast(messagesNow(messages).tookTheirs(theirs.version));
    },
    restore: (text, note) => {
      store.getState().replace(text);
      setKept(null);
      setDialog(null);
      toast(note);
    },
    dismissKept: () => {
      dropKept(store.getState().saved);
      setKept(null);
      setDialog(null);
    },
    dismissNewer: () => setNewer(null),
    show: setDialog,
    showVersions: () => setDialog({ kind: "versions" }),
    close: () => setDialog(null),
  };
}

/** The page of a workflow links to its versions: `/workflows/NAME/edit?versions=all`. */
function firstDialog(store: EditorStore): SaveDialog | null {
  const isWanted = new URLSearchParams(location.search).has("versions");
  return isWanted && store.getState().saved !== null ? { kind: "versions" } : null;
}

/** Asks before unsaved text is left: by a link of the page, by another address, or by closing it. */
function useLeaving(store: EditorStore, ask: (go: () => void) => void): void {
  const current = useRef(ask);
  current.current = ask;
  useEffect(() => {
    const isDirty = () => !store.getState().isReadOnly && isUnsaved(store.getState());
    const unload = (event: BeforeUnloadEvent) => {
      if (isDirty()) event.preventDefault();
    };
    addEventListener("beforeunload", unload);
    const release = guardLeaving((go) => {
      if (!isDirty()) return false;
      current.current(go);
      return true;
    });
    return () => {
      removeEventListener("beforeunload", unload);
      release();
    };
  }, [store]);
}

/** Looks for a newer version when the reader comes back to the page. */
function useNewer(store: EditorStore, onFound: (theirs: Theirs) => void): void {
  useEffect(() => {
    const look = () => {
      const { saved } = store.getState();
      if (saved === null || document.visibilityState === "hidden") return;
      readNewer(saved).then(
        (found) => {
          // It may have been saved here meanwhile.
          if (found && found.version > (store.getState().saved?.version ?? 0)) onFound(found);
        },
        // The connection's state is shown elsewhere, and saving tells if the workflow is gone.
        () => undefined,
      );
    };
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      removeEventListener("focus", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, [store, onFound]);
}
