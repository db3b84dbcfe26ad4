import { afterEach, expect, test, vi } from "vitest";
import { ApiError } from "../../../api/client";
import { editsOf, saveUnsavedEdits, useUnsavedEdit } from "./unsaved";

const edit = { runId: "r", address: "A[3]/B", nodeId: "B", position: 0, version: "v1", text: "mine" };

afterEach(() => {
  vi.unstubAllGlobals();
  useUnsavedEdit.setState({ edits: {} });
});

function answer(status: number, body: unknown) {
  const sent: unknown[] = [];
  vi.stubGlobal("fetch", async (_path: string, options: RequestInit) => {
    sent.push(JSON.parse(String(options.body)));
    return new Response(JSON.stringify(body), { status });
  });
  return sent;
}

test("an edit that is saved is dropped, and those of other runs stay", async () => {
  const sent = answer(200, { seq: 9 });
  useUnsavedEdit.getState().put(edit);
  useUnsavedEdit.getState().put({ ...edit, runId: "other" });
  await saveUnsavedEdits("r");
  expect(sent).toEqual([{ at: "A[3]/B", position: 0, version: "v1", text: "mine" }]);
  expect(editsOf(useUnsavedEdit.getState().edits, "r")).toEqual([]);
  expect(editsOf(useUnsavedEdit.getState().edits, "other")).toHaveLength(1);
});

test("an edit of a message that somebody else has changed is kept", async () => {
  answer(409, { type: "urn:roundel:problem:stale", title: "t", status: 409 });
  useUnsavedEdit.getState().put(edit);
  await expect(saveUnsavedEdits("r")).rejects.toBeInstanceOf(ApiError);
  expect(editsOf(useUnsavedEdit.getState().edits, "r")).toEqual([edit]);
});
