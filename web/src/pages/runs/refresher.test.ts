// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Refresher } from "./refresher";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("reads soon after the first change, and then once a second", async () => {
  const read = vi.fn(async () => {});
  const refresher = new Refresher(read);
  for (let step = 0; step < 30; step++) {
    refresher.changed();
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(read.mock.calls.length).toBeGreaterThanOrEqual(3);
  expect(read.mock.calls.length).toBeLessThanOrEqual(4);
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
  refresher.changed();
  await vi.advanceTimersByTimeAsync(3000);
  refresher.changed();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(read).toHaveBeenCalledTimes(2);
  expect(most).toBe(1);
});

it("reads nothing for a hidden page, and catches up when it is seen", async () => {
  const read = vi.fn(async () => {});
  const refresher = new Refresher(read);
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
  refresher.changed();
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).not.toHaveBeenCalled();
  hidden.mockReturnValue(false);
  refresher.shown();
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).toHaveBeenCalledTimes(1);
});

it("stops when it is closed, also during a read", async () => {
  const read = vi.fn(async () => {});
  const refresher = new Refresher(read);
  refresher.changed();
  refresher.close();
  refresher.changed();
  await vi.advanceTimersByTimeAsync(5000);
  expect(read).not.toHaveBeenCalled();
});
