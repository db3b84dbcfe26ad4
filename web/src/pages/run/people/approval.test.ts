import { describe, expect, it } from "vitest";
import { toolRoundOf } from "../../../live/address";
import {
  approvalBody,
  argumentsOf,
  callText,
  draftOf,
  fieldOfError,
  inMode,
  isSame,
  kindOf,
  readArguments,
  type ApprovalDraft,
} from "./approval";

const before = { to: "a@example.com", body: "Dear\nMs Ostfeld", copies: 2, urgent: false, attach: [], more: { a: 1, b: [2] } };

function edited(changes: Record<string, string>): ApprovalDraft {
  const draft = draftOf(before);
  return { ...draft, fields: draft.fields.map((field) => ({ ...field, text: changes[field.name] ?? field.text })) };
}

describe("the arguments of a call", () => {
  it("have fields by type", () => {
    expect(draftOf(before).fields.map((field) => field.kind)).toEqual(["line", "text", "number", "boolean", "json", "json"]);
    expect(kindOf("x".repeat(73))).toBe("text");
    expect(kindOf(null)).toBe("json");
    expect(argumentsOf({ arguments: "broken" })).toEqual({});
  });

  it("are unchanged until a value differs", () => {
    const read = readArguments(draftOf(before), before);
    expect(read).toEqual({ arguments: before, changed: [], problems: {} });
    expect(readArguments(edited({ more: '{"b": [2], "a": 1}' }), before).changed).toEqual([]);
  });

  it("keep their types when they are edited", () => {
    const read = readArguments(edited({ to: "7", copies: "3.5", urgent: "true", attach: '["x"]' }), before);
    expect(read.arguments).toMatchObject({ to: "7", copies: 3.5, urgent: true, attach: ["x"] });
    expect(read.changed).toEqual(["to", "copies", "urgent", "attach"]);
  });

  it("report what does not fit, at its field", () => {
    const read = readArguments(edited({ copies: "three", attach: "[", more: "" }), before);
    expect(read.problems).toEqual({ copies: "number", attach: "json", more: "json" });
    expect(read.changed).toEqual(["copies", "attach", "more"]);
    expect(readArguments(edited({ copies: '"3"' }), before).problems).toEqual({ copies: "number" });
  });

  it("may be written as JSON, with members added and removed", () => {
    const json = { ...draftOf(before), mode: "json" as const };
    const read = readArguments({ ...json, json: '{"to": "b@example.com", "cc": "c"}' }, before);
    expect(read.changed).toEqual(["to", "body", "copies", "urgent", "attach", "more", "cc"]);
    expect(readArguments({ ...json, json: "[1]" }, before).problems).toEqual({ "": "object" });
    expect(readArguments({ ...json, json: "{" }, before).problems).toEqual({ "": "json" });
  });

  it("move between both views", () => {
    const json = inMode(edited({ copies: "3" }), "json", before);
    expect(JSON.parse(json?.json ?? "")).toEqual({ ...before, copies: 3 });
    expect(inMode(edited({ copies: "x" }), "json", before)).toBeNull();
    const back = inMode({ ...draftOf(before), mode: "json", json: '{"to": 5, "body": "Hi"}' }, "fields", before);
    expect(back?.fields).toEqual([
      { name: "to", kind: "number", text: "5" },
      { name: "body", kind: "text", text: "Hi" },
    ]);
    expect(inMode({ ...draftOf(before), mode: "json", json: "{" }, "fields", before)).toBeNull();
  });

  it("are compared as JSON", () => {
    expect(isSame({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] })).toBe(true);
    expect(isSame([], {})).toBe(false);
    expect(isSame({ a: undefined }, { b: undefined })).toBe(false);
    expect(isSame(null, {})).toBe(false);
  });
});

describe("a decision", () => {
  const at = "Analyst[2]/send_mail";

  it("approves the call as it is", () => {
    const draft = draftOf(before);
    expect(approvalBody(draft, readArguments(draft, before), at)).toEqual({ at, text: "approve" });
    const noted = { ...draft, note: " fine " };
    expect(approvalBody(noted, readArguments(noted, before), at)).toEqual({
      at,
      text: "approve",
      data: { approve: true, reason: "fine" },
    });
  });

  it("approves changed arguments, all of them", () => {
    const draft: ApprovalDraft = { ...edited({ copies: "3" }), decision: "edited" };
    expect(approvalBody(draft, readArguments(draft, before), at).data).toEqual({
      approve: true,
      arguments: { ...before, copies: 3 },
    });
  });

  it("throws changes away if the call is approved as asked", () => {
    const draft = edited({ copies: "3" });
    expect(approvalBody(draft, readArguments(draft, before), at)).toEqual({ at, text: "approve" });
  });

  it("rejects with a reason, whatever was edited", () => {
    const draft: ApprovalDraft = { ...edited({ copies: "3" }), decision: "reject", reason: "no: too much " };
    expect(approvalBody(draft, readArguments(draft, before), at)).toEqual({
      at,
      text: "reject: no: too much",
      data: { approve: false, reason: "no: too much" },
    });
  });
});

describe("texts", () => {
  it("show a call in one line", () => {
    expect(callText("read", { id: 7, name: "x" })).toBe('read(id: 7, name: "x")');
    expect(callText("read", { text: "x".repeat(200) })).toHaveLength(90);
  });

  it("find the argument of an error", () => {
    expect(fieldOfError("'to' is no address", ["subject", "to"])).toBe("to");
    expect(fieldOfError("nothing fits", ["to"])).toBeNull();
  });

  it("know the tool round of a call", () => {
    expect(toolRoundOf("Analyst[2].Analyst[6]/send_mail#2")).toBe(6);
  });
});
