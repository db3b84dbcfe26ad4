// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import { discardDraft, markSent, useDrafts } from "./drafts";

const key = "r1.W[1]/Editor";
const stored = `roundel.draft.${key}`;
const draft = { runId: "r1", address: "W[1]/Editor", kind: "answer" as const, value: { text: "tea" }, at: 1, isSent: false };

describe("drafts", () => {
  beforeEach(() => {
    sessionStorage.setItem(stored, JSON.stringify(draft));
    useDrafts.setState({ drafts: { [key]: draft } });
  });

  it("are not kept once they were sent", () => {
    markSent("r1", "W[1]/Editor", true);
    expect(sessionStorage.getItem(stored)).toBeNull();
    expect(useDrafts.getState().drafts[key]?.isSent).toBe(true);
  });

  it("are kept again if sending failed", () => {
    markSent("r1", "W[1]/Editor", true);
    markSent("r1", "W[1]/Editor", false);
    expect(JSON.parse(sessionStorage.getItem(stored) ?? "null")).toEqual(draft);
  });

  it("are discarded from the page and from storage", () => {
    discardDraft("r1", "W[1]/Editor");
    expect(sessionStorage.getItem(stored)).toBeNull();
    expect(useDrafts.getState().drafts).toEqual({});
  });

  it("that were never written are not marked", () => {
    markSent("r2", "X", true);
    expect(Object.keys(useDrafts.getState().drafts)).toEqual([key]);
  });
});
