// Reading and saving the workflow of an editor.
import { ApiError, call, send } from "../../../api/client";
import { queryClient } from "../../../api/queries";
import type { SaveResult, WorkflowView } from "../../../api/schema";
import type { Saved } from "../store";

const pathOf = (name: string) => `/workflows/${encodeURIComponent(name)}`;

/** A version with the name of who saved it, and when. */
export interface Theirs extends Saved {
  author: string;
  updated: string;
}

async function savedOf(answer: Response): Promise<Theirs> {
  const view = (await answer.json()) as WorkflowView;
  const { name, group, version, text, author, updated } = view;
  return { name, group, version, text, author, updated, etag: answer.headers.get("etag") ?? `"${version}"` };
}

export async function readSaved(name: string, group: string | null): Promise<Theirs> {
  return savedOf(await send(pathOf(name), { query: { group } }));
}

/** The newest version if it is not the one that the editor has. */
export async function readNewer(saved: Saved): Promise<Theirs | null> {
  try {
    const headers = { "if-none-match": saved.etag };
    return await savedOf(await send(pathOf(saved.name), { query: { group: saved.group || null }, headers }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 304) return null;
    throw error;
  }
}

export interface Stored {
  saved: Saved;
  result: SaveResult;
}

/** Saves a text over the version with this tag, or as a new workflow. Throws ApiError 412 if there is another one. */
export async function storeText(name: string, group: string | null, text: string, etag: string | null): Promise<Stored> {
  const answer = await send(pathOf(name), {
    method: "PUT",
    query: { group },
    headers: etag === null ? { "if-none-match": "*" } : { "if-match": etag },
    body: { text },
  });
  const result = (await answer.json()) as SaveResult;
  await queryClient.invalidateQueries({ queryKey: ["workflows"] });
  const saved = { name: result.name, group: result.group, version: result.version, text };
  return { saved: { ...saved, etag: answer.headers.get("etag") ?? `"${result.version}"` }, result };
}

export function readVersion(saved: Saved, version: number): Promise<WorkflowView> {
  return call<WorkflowView>(`${pathOf(saved.name)}/versions/${version}`, { query: { group: saved.group || null } });
}
