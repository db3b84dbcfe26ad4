// The connection of this page to the hub, and through it to the server.
import { create } from "zustand";
import type { ConnectionState, RunEvent } from "./events";
import type { FromHub, ToHub } from "./hub";

export const useConnection = create<ConnectionState>(() => ({ state: "connecting", heard: 0 }));

type OnEvents = (events: RunEvent[]) => void;
type OnGap = () => void;
type OnReset = (run?: string) => void;

const listeners = new Set<OnEvents>();
let readersOfAll = 0;
const gapListeners = new Set<OnGap>();
const resetListeners = new Set<OnReset>();
let post: ((message: ToHub) => void) | null = null;

function receive(message: FromHub): void {
  if (message.type === "events") for (const listener of listeners) listener(message.events);
  else if (message.type === "gap") for (const listener of gapListeners) listener();
  else if (message.type === "reset") for (const listener of resetListeners) listener(message.run);
  else useConnection.setState(message.connection);
}

function connect(): (message: ToHub) => void {
  if (typeof SharedWorker !== "undefined") {
    const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: "roundel" });
    worker.port.onmessage = (event: MessageEvent<FromHub>) => receive(event.data);
    // The worker cannot notice by itself that a tab was closed.
    addEventListener("pagehide", () => worker.port.postMessage({ type: "bye" } satisfies ToHub));
    addEventListener("pageshow", (event) => {
      if (event.persisted) location.reload();
    });
    return (message) => worker.port.postMessage(message);
  }
  // Few browsers need it, so it is loaded by those alone.
  const joined = import("./hub").then(({ Hub }) => {
    const hub = new Hub();
    const page = hub.join(receive);
    return (message: ToHub) => hub.take(page, message);
  });
  return (message) => void joined.then((take) => take(message));
}

export function tell(message: ToHub): void {
  post ??= connect();
  post(message);
}

/** Calls a function with the events of all runs that the reader may see, as they come. */
export function onEvents(listener: OnEvents, onGap: OnGap = () => {}): () => void {
  if (readersOfAll++ === 0) tell({ type: "follow-all", isOn: true });
  const stop = listen(listener, onGap);
  return () => {
    stop();
    if (--readersOfAll === 0) tell({ type: "follow-all", isOn: false });
  };
}

/** The same for one run. Others may be among them, for other readers on this page. */
export function onRunEvents(run: string, listener: OnEvents, onGap: OnGap, onReset: () => void): () => void {
  tell({ type: "follow", run });
  const stop = listen(listener, onGap);
  const reset: OnReset = (only = run) => {
    if (only === run) onReset();
  };
  resetListeners.add(reset);
  return () => {
    stop();
    resetListeners.delete(reset);
    tell({ type: "unfollow", run });
  };
}

function listen(listener: OnEvents, onGap: OnGap): () => void {
  listeners.add(listener);
  gapListeners.add(onGap);
  return () => {
    listeners.delete(listener);
    gapListeners.delete(onGap);
  };
}

addEventListener("online", () => tell({ type: "retry" }));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && post !== null) tell({ type: "retry" });
});
