import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { rename, setValue } from "../../document/edits";
import { MOST_BRACKETS, tooDeepAt } from "./reading";
import { canRedo, canUndo, CHECK_AFTER, createEditor, isUnsaved, READ_AT_ONCE } from "./store";

const TEXT = "graph:\n  id: tea # a comment\n  nodes:\n    - {id: A, type: agent}\n";
const saved = { name: "tea", group: "", version: 1, etag: '"1"', text: TEXT };

let answers: { text: string; collapsed: string[]; answer: (result: unknown) => void }[] = [];

beforeEach(() => {
  answers = [];
  vi.useFakeTimers();
  vi.stubGlobal("fetch", (_url: string, { body, signal }: { body: string; signal: AbortSignal }) => {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      const { text, collapsed } = JSON.parse(body) as { text: string; collapsed: string[] };
      answers.push({ text, collapsed, answer: (result) => resolve(new Response(JSON.stringify(result))) });
    });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const type = (store: ReturnType<typeof createEditor>, from: number, insert: string) => {
  const { state, apply } = store.getState();
  apply([state.update({ changes: { from, insert }, userEvent: "input.type" })]);
};

describe("the editor", () => {
  it("changes the lines of an edit only, and undo restores the bytes", () => {
    const store = createEditor(TEXT, saved);
    const { lastGood, edit, undo, redo } = store.getState();
    edit({ changes: setValue(lastGood, ["graph", "id"], "coffee") });
    expect(store.getState().text).toBe(TEXT.replace("tea", "coffee"));
    expect(isUnsaved(store.getState())).toBe(true);
    undo();
    expect(store.getState().text).toBe(TEXT);
    expect(canUndo(store.getState().state)).toBe(false);
    expect(canRedo(store.getState().state)).toBe(true);
    redo();
    expect(store.getState().document.value).toMatchObject({ graph: { id: "coffee" } });
  });

  it("keeps the last good document, and edits of it go to the right place of a broken text", () => {
    const store = createEditor(TEXT, saved);
    const good = store.getState().lastGood;
    type(store, 0, "x: [\n");
    expect(store.getState().document.errors.length).toBeGreaterThan(0);
    expect(store.getState().lastGood).toBe(good);
    store.getState().edit({ changes: setValue(good, ["graph", "id"], "coffee") });
    expect(store.getState().text).toBe(`x: [\n${TEXT.replace("tea", "coffee")}`);
  });

  it("ignores what a view dispatches after it was removed", () => {
    const store = createEditor(TEXT, saved);
    let late = () => {};
    const detach = store.getState().attach([], (state, apply) => {
      late = () => apply([state.update({ changes: { from: 0, insert: "# late\n" } })]);
      return { update: () => {} };
    });
    type(store, 0, "# typed\n");
    detach();
    late();
    expect(store.getState().text).toBe(`# typed\n${TEXT}`);
    expect(store.getState().state.doc.toString()).toBe(store.getState().text);
  });

  it("refuses edits of texts that are gone", () => {
    const store = createEditor(TEXT, saved);
    const old = store.getState().lastGood;
    type(store, 0, "# new\n");
    expect(() => store.getState().edit({ changes: [{ from: 0, to: 0, insert: "x" }] }, old)).toThrow();
  });

  it("asks the server after a pause, and only about the newest text", async () => {
    const store = createEditor(TEXT, saved);
    await vi.advanceTimersByTimeAsync(0);
    expect(answers.map(({ text }) => text)).toEqual([TEXT]);
    type(store, 0, "#");
    type(store, 1, " note\n");
    await vi.advanceTimersByTimeAsync(CHECK_AFTER);
    expect(answers.at(-1)?.text).toBe(`# note\n${TEXT}`);
    expect(answers.length).toBe(2);
    type(store, 0, "\n");
    answers.at(-1)?.answer({ ok: true, diagnostics: [], loops: [], drawing: null });
    await vi.advanceTimersByTimeAsync(0);
    const { check, checkedText, sinceCheck } = store.getState();
    expect(check?.ok).toBe(true);
    expect(checkedText).toBe(`# note\n${TEXT}`);
    // What was typed since the question moves the places of the answer.
    expect(sinceCheck.mapPos(0, 1)).toBe(1);
    store.getState().close();
  });

  it("replaces a text by what differs, in one step", () => {
    const store = createEditor(TEXT, saved);
    store.getState().replace(TEXT.replace("tea", "milk"));
    store.getState().undo();
    expect(store.getState().text).toBe(TEXT);
  });

  it("does not let readers change anything", () => {
    const store = createEditor(TEXT, saved, true);
    store.getState().edit({ changes: [{ from: 0, to: 5, insert: "" }] });
    store.getState().replace("");
    expect(store.getState().text).toBe(TEXT);
  });

  it("reads large texts after a pause", async () => {
    const store = createEditor(TEXT, saved);
    type(store, TEXT.length, `# ${"x".repeat(READ_AT_ONCE)}\n`);
    expect(store.getState().document.text).toBe(TEXT);
    const { lastGood, edit } = store.getState();
    edit({ changes: setValue(lastGood, ["graph", "id"], "coffee") });
    expect(store.getState().text.startsWith(TEXT.replace("tea", "coffee"))).toBe(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.getState().document.text).toBe(store.getState().text);
    store.getState().close();
  });

  it("does not parse thousands of brackets", () => {
    const store = createEditor("[".repeat(200_000), null);
    expect(store.getState().document.errors).toHaveLength(1);
    expect(tooDeepAt("[]".repeat(1000))).toBe(-1);
    expect(tooDeepAt("[".repeat(1000))).toBe(MOST_BRACKETS);
  });
});

describe("collapsed nodes", () => {
  const kept = new Map<string, string>();
  beforeEach(() => {
    kept.clear();
    vi.stubGlobal("localStorage", {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => void kept.set(key, value),
      removeItem: (key: string) => void kept.delete(key),
    });
  });
  const NESTED = `graph:
  nodes:
    - {id: Team, type: subgraph, config: {type: config, config: {nodes: [{id: A, type: agent}]}}}
    - {id: B, type: agent}
`;
  const drawing = (name: string) => ({ title: name });

  it("are drawn by the server at once, beside a drawing of everything", async () => {
    const store = createEditor(NESTED, saved);
    await vi.advanceTimersByTimeAsync(0);
    answers[0]?.answer({ drawing: drawing("all"), collapsed_drawing: null, diagnostics: [], loops: [] });
    await vi.advanceTimersByTimeAsync(0);
    expect(store.getState().shown).toBe(store.getState().drawing);
    store.getState().setCollapsed(["Team"]);
    expect(answers.map(({ collapsed }) => collapsed)).toEqual([[], ["Team"]]);
    answers[1]?.answer({ drawing: drawing("all"), collapsed_drawing: drawing("closed"), diagnostics: [], loops: [] });
    await vi.advanceTimersByTimeAsync(0);
    expect(store.getState().drawing).toEqual(drawing("all"));
    expect(store.getState().shown).toEqual(drawing("closed"));
    expect(store.getState().text).toBe(NESTED);
  });

  it("are kept for each workflow, and open with what an edit selects inside", () => {
    const store = createEditor(NESTED, saved);
    store.getState().setCollapsed(["Team", "Other"]);
    expect(createEditor(NESTED, saved).getState().collapsed).toEqual(["Team", "Other"]);
    expect(createEditor(NESTED, { ...saved, name: "coffee" }).getState().collapsed).toEqual([]);
    store.getState().edit({ changes: [], select: [{ kind: "node", key: "Team/A" }] });
    expect(store.getState().collapsed).toEqual(["Other"]);
    store.getState().setCollapsed([]);
    expect(kept.size).toBe(0);
  });

  it("keep their state when they are renamed, and when a new workflow gets its name", () => {
    const store = createEditor(NESTED, null);
    store.getState().setCollapsed(["Team", "Team/Inner", "Teams"]);
    expect(kept.size).toBe(0);
    store.getState().edit(rename(store.getState().lastGood, "Team", "Crew"));
    expect(store.getState().collapsed).toEqual(["Crew", "Crew/Inner", "Teams"]);
    store.getState().setSaved(saved);
    expect(createEditor(NESTED, saved).getState().collapsed).toEqual(["Crew", "Crew/Inner", "Teams"]);
  });

  it("survive a storage that somebody has edited", () => {
    for (const text of ["{", "7", '["Team", 7]']) {
      kept.set("roundel.collapsed//tea", text);
      expect(createEditor(NESTED, saved).getState().collapsed).toEqual(text.startsWith("[") ? ["Team"] : []);
    }
  });
});
