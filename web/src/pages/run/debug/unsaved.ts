// Edits of waiting messages that are not saved yet. They are kept outside of the components: the bar with the
// steps warns of them, and a run that somebody else continues must not take them along.
import { create } from "zustand";
import { call } from "../../../api/client";
import { keys, queryClient } from "../../../api/queries";
import type { RunState } from "../../../api/schema";

export interface UnsavedEdit {
  runId: string;
  /** The address of the node at which the message waits. */
  address: string;
  nodeId: string;
  /** Its number in the queue. */
  position: number;
  /** The version that was edited. */
  version: string;
  text: string;
}

interface UnsavedEdits {
  edits: Readonly<Record<string, UnsavedEdit>>;
  put: (edit: UnsavedEdit) => void;
  drop: (key: string) => void;
}

export function editKey(edit: Pick<UnsavedEdit, "runId" | "address" | "position">): string {
  return `${edit.runId} ${edit.address} ${edit.position}`;
}

export const useUnsavedEdit = create<UnsavedEdits>((set, get) => ({
  edits: {},
  put: (edit) => set({ edits: { ...get().edits, [editKey(edit)]: edit } }),
  drop: (key) => {
    const { [key]: _, ...edits } = get().edits;
    set({ edits });
  },
}));

export function editsOf(edits: UnsavedEdits["edits"], runId: string): UnsavedEdit[] {
  return Object.values(edits).filter((edit) => edit.runId === runId);
}

/** Whether a run has an edit that a step would not take into account. */
export function useHasUnsavedEdit(runId: string): boolean {
  return useUnsavedEdit((state) => editsOf(state.edits, runId).length > 0);
}

/** Saves one edit, and returns the new state. Throws ApiError, with the type `stale` if somebody else has changed the
 * message; the edit is kept then. */
export async function saveEdit(edit: UnsavedEdit): Promise<RunState> {
  const { runId, address, position, version, text } = edit;
  const state = await call<RunState>(`/runs/${runId}/edit`, { body: { at: address, position, version, text } });
  queryClient.setQueryData(keys.state(runId), state);
  // What was typed while the request was under way is another edit.
  const current = useUnsavedEdit.getState().edits[editKey(edit)];
  if (current?.text === text) useUnsavedEdit.getState().drop(editKey(edit));
  return state;
}

/** Saves all edits of a run, for a button that saves and steps. */
export async function saveUnsavedEdits(runId: string): Promise<void> {
  for (const edit of editsOf(useUnsavedEdit.getState().edits, runId)) await saveEdit(edit);
}
