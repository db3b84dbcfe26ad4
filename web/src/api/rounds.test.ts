import { afterEach, expect, it, vi } from "vitest";
import { readRounds } from "./rounds";

afterEach(() => vi.unstubAllGlobals());

it("reads all pages of each loop", async () => {
  const pages: Record<string, unknown> = {
    "": [
      { loop: "A", rounds: [{ number: 1 }], next: "1" },
      { loop: "B", rounds: [], next: "0" },
    ],
    A1: [{ loop: "A", rounds: [{ number: 2 }], next: "2" }],
    A2: [{ loop: "A", rounds: [{ number: 3 }], next: null }],
    B0: [{ loop: "B", rounds: [{ number: 1 }], next: null }],
  };
  vi.stubGlobal("fetch", async (url: string) => {
    const query = new URL(url, "http://x").searchParams;
    expect(query.get("from")).toBe("1");
    return new Response(JSON.stringify(pages[`${query.get("loop") ?? ""}${query.get("cursor") ?? ""}`]));
  });
  expect(await readRounds("r", { from: 1 })).toEqual([
    { loop: "A", rounds: [{ number: 1 }, { number: 2 }, { number: 3 }] },
    { loop: "B", rounds: [{ number: 1 }] },
  ]);
});
