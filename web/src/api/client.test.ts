import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { call, sendAhead } from "./client";

const answers: Response[] = [];
const asked = vi.fn((_url: string) => Promise.resolve(answers.shift() ?? Response.error()));

beforeEach(() => vi.stubGlobal("fetch", asked));
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  asked.mockClear();
  answers.length = 0;
});

test("an answer that was sent ahead is taken once", async () => {
  answers.push(Response.json(1), Response.json(2));
  sendAhead("/runs", { query: { limit: 60 } });
  expect(await call("/runs", { query: { limit: 60 } })).toBe(1);
  expect(asked).toHaveBeenCalledTimes(1);
  expect(await call("/runs", { query: { limit: 60 } })).toBe(2);
});

test("another query is another request", async () => {
  answers.push(Response.json(1), Response.json(2));
  sendAhead("/runs", { query: { limit: 60 } });
  expect(await call("/runs", { query: { limit: 10 } })).toBe(2);
});

test("what the server refused is asked again: the reader may have signed in", async () => {
  answers.push(new Response("{}", { status: 401 }), Response.json(2));
  sendAhead("/me");
  expect(await call("/me")).toBe(2);
});

test("an old answer does not count", async () => {
  vi.useFakeTimers();
  answers.push(Response.json(1), Response.json(2));
  sendAhead("/server");
  vi.advanceTimersByTime(11_000);
  expect(await call("/server")).toBe(2);
});

test("a change is always sent", async () => {
  answers.push(Response.json(1), Response.json(2));
  sendAhead("/session");
  expect(await call("/session", { method: "DELETE" })).toBe(2);
});

test("an answer that breaks off is a server that cannot be reached", async () => {
  const body = new ReadableStream({ start: (stream) => stream.error(new TypeError("network error")) });
  answers.push(new Response(body));
  await expect(call("/runs")).rejects.toMatchObject({ status: 0, message: "the server cannot be reached" });
});
