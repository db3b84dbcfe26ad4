// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Refresher } from "./refresher";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Wants a read every 50 ms for a minute, and counts the reads. */
async function count(took: number): Promise<number> {
  const read = vi.fn(() => new Promise((resolve) => setTimeout(resolve, took)));
  const refresher = new Refresher(read);
  for (let at = 0; at < 60_000; at += 50) {
    refresher.want();
    await vi.advanceTimersByTimeAsync(50);
  }
  refresher.close();
  return read.mock.calls.length;
}

it("reads at most once a second, and at most a tenth of the time", async () => {
  const quick = await count(10);
  expect(quick).toBeGreaterThan(50);
  expect(quick).toBeLessThanOrEqual(60);
  const slow = await count(2000);
  expect(slow * 2000).toBeLessThanOrEqual(0.1 * 60_000 + 2000);
  expect(slow).toBeGreaterThan(2);
});

it("waits a moment for further changes before the first read", async () => {
  const read = vi.fn(async () => {});
  const refresher = new Refresher(read, 60);
  refresher.want();
  await vi.advanceTimersByTimeAsync(40);
  refresher.want();
  expect(read).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(40);
  expect(read).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).toHaveBeenCalledTimes(1);
  refresher.close();
});

it("reads again after a change during a slow read, and never twice at once", async () => {
  let open = 0;
  let most = 0;
  const read = vi.fn(async () => {
    most = Math.max(most, ++open);
    await new Promise((resolve) => setTimeout(resolve, 5000));
    open--;
  });
  const refresher = new Refresher(read);
  refresher.want();
  await vi.advanceTimersByTimeAsync(3000);
  refresher.want();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(read).toHaveBeenCalledTimes(2);
  expect(most).toBe(1);
  refresher.close();
});

it("reads nothing for a hidden page, and catches up when it is seen", async () => {
  const read = vi.fn(async () => {});
  const refresher = new Refresher(read);
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
  refresher.want();
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).not.toHaveBeenCalled();
  hidden.mockReturnValue(false);
  document.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).toHaveBeenCalledTimes(1);
  refresher.close();
});

it("does nothing after it was closed", async () => {
  const read = vi.fn(async () => {});
  const refresher = new Refresher(read);
  refresher.want();
  refresher.close();
  refresher.want();
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).not.toHaveBeenCalled();
});
