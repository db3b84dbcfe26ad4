import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Refresher } from "./refresher";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** Wants the work every 50 ms for a minute, and counts how often it was done. */
async function count(took: number): Promise<number> {
  let done = 0;
  const refresher = new Refresher(
    async () => {
      await new Promise((resolve) => setTimeout(resolve, took));
      done++;
    },
    () => Date.now(),
  );
  for (let at = 0; at < 60_000; at += 50) {
    refresher.want();
    await vi.advanceTimersByTimeAsync(50);
  }
  refresher.close();
  return done;
}

it("works at most once a second, and at most a tenth of the time", async () => {
  const quick = await count(10);
  expect(quick).toBeGreaterThan(50);
  expect(quick).toBeLessThanOrEqual(60);
  const slow = await count(2000);
  expect(slow * 2000).toBeLessThanOrEqual(0.1 * 60_000 + 2000);
  expect(slow).toBeGreaterThan(2);
});

it("does what was wanted while it worked", async () => {
  let done = 0;
  const refresher = new Refresher(
    async () => {
      done++;
      await new Promise((resolve) => setTimeout(resolve, 100));
    },
    () => Date.now(),
  );
  refresher.want();
  await vi.advanceTimersByTimeAsync(50);
  refresher.want();
  await vi.advanceTimersByTimeAsync(5000);
  expect(done).toBe(2);
});

it("does nothing after it was closed", async () => {
  let done = 0;
  const refresher = new Refresher(async () => void done++, () => Date.now());
  refresher.want();
  refresher.close();
  await vi.advanceTimersByTimeAsync(5000);
  expect(done).toBe(0);
});
