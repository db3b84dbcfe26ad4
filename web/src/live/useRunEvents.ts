// The one source of every view of a run: `useRunEvents(runId)`.
//
// The first component that shows a run reads its stored events and then follows it; all others share the
// same store. Components select what they draw: `useRun(store, (run) => run.nodes.get(key))`. Changes are
// published once a frame, however many events there are; less often if there are so many that nobody could
// follow every frame.
import { useEffect, useState } from "react";
import { createStore, useStore, type StoreApi } from "zustand";
import { send } from "../api/client";
import { storedEventsRequest } from "../api/requests";
import { isOver } from "../api/statuses";
import { onRunEvents, tell, useConnection } from "./connection";
import type { Connection, RunEvent } from "./events";
import { RunModel } from "./run_model";

export interface RunSnapshot {
  /** Changes with each publication; the maps of the model stay the same objects. */
  version: number;
  model: RunModel;
  /** Whether the stored events have been read. */
  isLoaded: boolean;
  /** Why they could not be read. */
  error: Error | null;
}

export type RunStore = StoreApi<RunSnapshot>;

/** How long events are applied without a pause, in milliseconds: a frame has to be drawn, too. */
const SLICE_MS = 8;
/** How many are applied between two looks at the clock. */
const SLICE_EVENTS = 50;
/** With more events in a frame, most nodes in sight change with each of them. */
const FLOOD_EVENTS = 50;
/** Then the time between two publications is that which one takes, times this. */
const FLOOD_PAUSE = 4;
/** A frame that comes later than this has waited for events, in milliseconds. */
const MOST_COST = 100;

const nextTask = () => new Promise<void>((resolve) => setTimeout(resolve));

/** One run that is followed. */
class FollowedRun {
  readonly store: RunStore;
  users = 0;
  #waiting: RunEvent[] = [];
  #frame = 0;
  #published = 0;
  /** From the last publication to the next frame, in milliseconds: how long it took to draw what it has changed. */
  #cost = 0;
  #isUnpublished = false;
  #reading: Promise<void> | null = null;
  #readAgain = false;
  #stop: (() => void) | null = null;
  #isClosed = false;

  constructor(
    readonly runId: string,
    readonly composites: ReadonlySet<string>,
  ) {
    this.store = createStore(() => ({
      version: 0,
      model: new RunModel(composites),
      isLoaded: false,
      error: null,
    }));
  }

  open(): void {
    this.#stop = onRunEvents(
      this.runId,
      (events) => this.#take(events),
      () => void this.read(),
      () => void this.#reset(),
    );
    document.addEventListener("visibilitychange", this.#look);
    void this.read().then(this.#look);
  }

  close(): void {
    this.#isClosed = true;
    this.#stop?.();
    cancelAnimationFrame(this.#frame);
    document.removeEventListener("visibilitychange", this.#look);
    tell({ type: "look-away", run: this.runId });
  }

  /** Forgets the run, and reads it again: its events have other numbers now. */
  async #reset(): Promise<void> {
    this.#waiting = [];
    await this.#reading;
    if (this.#isClosed) return;
    this.#publish({ model: new RunModel(this.composites), isLoaded: false });
    void this.read();
  }

  /** Text as it is written comes only to a page that is looked at, while the run is not over. */
  #look = (): void => {
    if (this.#isClosed) return;
    const { status, seq } = this.store.getState().model;
    if (document.hidden || isOver(status)) tell({ type: "look-away", run: this.runId });
    else tell({ type: "look", run: this.runId, after: seq });
  };

  #take(events: RunEvent[]): void {
    const own = events.filter((event) => event.run_id === this.runId);
    if (!own.length) return;
    this.#waiting.push(...own);
    this.#plan();
  }

  #plan(): void {
    if (this.#frame || this.#reading || !(this.#waiting.length || this.#isUnpublished)) return;
    // A hidden page has no frames, and needs none.
    if (document.hidden) this.#flush(Infinity);
    else this.#frame = requestAnimationFrame(() => this.#flush(SLICE_MS));
  }

  /** Applies the events that wait; the rest of a great many with the next frame. */
  #flush(most: number): void {
    this.#frame = 0;
    if (this.#isClosed || this.#reading) return;
    const began = performance.now();
    if (!this.#isUnpublished) this.#cost = Math.min(MOST_COST, began - this.#published);
    const { model } = this.store.getState();
    const before = model.status;
    // Two streams bring the events: what one has already brought is passed over by its number.
    const events = this.#waiting.sort((a, b) => (a.seq ?? Infinity) - (b.seq ?? Infinity));
    const end = began + most;
    let done = 0;
    let isComplete = true;
    while (done < events.length && isComplete && performance.now() < end) {
      isComplete = model.apply(events.slice(done, done + SLICE_EVENTS));
      done += SLICE_EVENTS;
    }
    this.#waiting = isComplete ? events.slice(done) : [];
    if (!isComplete) void this.read();
    if (model.status !== before) this.#look();
    const isTooSoon = done > FLOOD_EVENTS && began - this.#published < FLOOD_PAUSE * this.#cost;
    if (isTooSoon && !document.hidden) this.#isUnpublished = true;
    else this.#publish({});
    this.#plan();
  }

  #publish(more: Partial<RunSnapshot>): void {
    this.#published = performance.now();
    this.#isUnpublished = false;
    this.store.setState((state) => ({ ...more, version: state.version + 1 }));
  }

  /** Reads the stored events that are not known yet. */
  async read(): Promise<void> {
    if (this.#reading) {
      this.#readAgain = true;
      return this.#reading;
    }
    this.#reading = this.#readStored();
    try {
      await this.#reading;
    } finally {
      this.#reading = null;
    }
    if (this.#isClosed) return;
    if (this.#readAgain) {
      this.#readAgain = false;
      void this.read();
    } else this.#flush(document.hidden ? Infinity : SLICE_MS);
  }

  async #readStored(): Promise<void> {
    const { model } = this.store.getState();
    try {
      const response = await send(...storedEventsRequest(this.runId, model.seq));
      const reader = response.body?.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      let began = performance.now();
      while (reader !== undefined) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        // Published at the end: half of a run would look like a run that is still there.
        model.apply(lines.filter(Boolean).map((line) => JSON.parse(line) as RunEvent));
        // Chunks that are there already come without a pause in between.
        if (performance.now() - began < SLICE_MS) continue;
        await nextTask();
        began = performance.now();
      }
      this.#publish({ isLoaded: true, error: null });
    } catch (error) {
      this.#publish({ isLoaded: true, error: error as Error });
    }
  }
}

const followed = new Map<string, FollowedRun>();
const NO_COMPOSITES: ReadonlySet<string> = new Set();

/** What is known of a run, live: node states, active nodes, rounds, and the state of the connection.
 *
 * `composites` are the keys of nodes with graphs inside (see `nodeKey`); the first caller decides. */
export function useRunEvents(
  runId: string,
  composites: ReadonlySet<string> = NO_COMPOSITES,
): { store: RunStore; connection: Connection } {
  const [run, setRun] = useState(() => find(runId, composites));
  const current = run.runId === runId ? run : find(runId, composites);
  useEffect(() => {
    const own = find(runId, composites);
    setRun(own);
    if (own.users++ === 0) own.open();
    return () => {
      if (--own.users > 0) return;
      own.close();
      followed.delete(runId);
    };
  }, [runId, composites]);
  const connection = useConnection((state) => state.state);
  return { store: current.store, connection };
}

function find(runId: string, composites: ReadonlySet<string>): FollowedRun {
  let found = followed.get(runId);
  if (found === undefined) {
    found = new FollowedRun(runId, composites);
    followed.set(runId, found);
  }
  return found;
}

/** A part of a run. The component is drawn again when the part is another object. */
export function useRun<T>(store: RunStore, select: (model: RunModel) => T): T {
  return useStore(store, (state) => select(state.model));
}
