// The streams of all tabs. A browser opens at most six connections to a server, so tabs share them:
//
//   all runs     one stream, while any tab follows anything
//   one run      also one for the run that a visible tab shows, since only that has text as it is written;
//                for at most RUN_STREAMS runs, those that were looked at last
//
// The hub lives in a SharedWorker, or in the page where there are none. Both kinds of stream bring the same
// stored events; pages drop what they have already, by `seq`.
import type { Connection, ConnectionState, RunEvent } from "./events";
import { backoff, NotFound, readStream, SignedOut, type SseMessage } from "./sse";

export const RUN_STREAMS = 2;

/** From a page to the hub. */
export type ToHub =
  | { type: "follow-all"; isOn: boolean }
  | { type: "follow"; run: string }
  | { type: "unfollow"; run: string }
  | { type: "look"; run: string; after: number }
  | { type: "look-away"; run: string }
  | { type: "retry" }
  | { type: "bye" };

/** From the hub to a page. */
export type FromHub =
  | { type: "events"; events: RunEvent[] }
  | { type: "connection"; connection: ConnectionState }
  /** Events may be missing: read them from the store. */
  | { type: "gap" };

type Send = (message: FromHub) => void;

export class Page {
  follows = new Set<string>();
  followsAll = false;
  looksAt = "";
  constructor(readonly send: Send) {}
}

/** A stream that connects again until it is closed. */
class Stream {
  #aborter = new AbortController();
  #wake: () => void = () => {};
  lastId = "";

  constructor(
    readonly url: string,
    readonly onEvents: (events: RunEvent[]) => void,
    readonly onState: (state: ConnectionState["state"]) => void,
    readonly onHeard: () => void,
    readonly onOver: () => void = () => {},
  ) {
    void this.#work();
  }

  close(): void {
    this.#aborter.abort();
  }

  /** Connects now, and not after the wait. */
  hurry(): void {
    this.#wake();
  }

  async #work(): Promise<void> {
    const signal = this.#aborter.signal;
    let tries = 0;
    let over = false;
    while (!signal.aborted && !over) {
      const began = Date.now();
      let state: Connection = "reconnecting";
      try {
        await readStream(
          this.url,
          this.lastId,
          signal,
          (messages) => {
            over = this.#take(messages);
          },
          () => {
            this.onHeard();
            this.onState("live");
          },
        );
      } catch (error) {
        if (error instanceof NotFound) break;
        if (error instanceof SignedOut) state = "signed-out";
      }
      if (signal.aborted || over) break;
      this.onState(state);
      // A server that accepts and hangs up at once must not be asked again at once.
      if (Date.now() - began > 2000) tries = 0;
      await this.#pause(state === "signed-out" ? 10_000 : backoff(tries++));
    }
    if (!signal.aborted) this.onOver();
  }

  #take(messages: SseMessage[]): boolean {
    const events: RunEvent[] = [];
    let over = false;
    for (const message of messages) {
      if (message.id) this.lastId = message.id;
      if (message.event === "end") over = true;
      else if (message.event !== "behind") events.push(JSON.parse(message.data) as RunEvent);
    }
    if (events.length) this.onEvents(events);
    return over;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

export class Hub {
  #pages = new Set<Page>();
  #all: Stream | null = null;
  #runs = new Map<string, Stream>();
  #connection: ConnectionState = { state: "connecting", heard: 0 };

  join(send: Send): Page {
    const page = new Page(send);
    this.#pages.add(page);
    send({ type: "connection", connection: this.#connection });
    this.#all ??= new Stream(
      "/api/v1/events",
      (events) => this.#deliver(events),
      (state) => this.#change(state),
      () => {
        this.#connection = { ...this.#connection, heard: Date.now() };
      },
    );
    return page;
  }

  leave(page: Page): void {
    this.#pages.delete(page);
    this.#closeUnused();
    if (this.#pages.size === 0) {
      this.#all?.close();
      this.#all = null;
      this.#connection = { state: "connecting", heard: 0 };
    }
  }

  take(page: Page, message: ToHub): void {
    switch (message.type) {
      case "follow-all":
        page.followsAll = message.isOn;
        // What the page has read may be older than this: events in between went to other pages only.
        if (message.isOn && this.#connection.state === "live") page.send({ type: "gap" });
        break;
      case "follow":
        page.follows.add(message.run);
        break;
      case "unfollow":
        page.follows.delete(message.run);
        break;
      case "look":
        page.looksAt = message.run;
        this.#look(message.run, message.after);
        break;
      case "look-away":
        if (page.looksAt === message.run) page.looksAt = "";
        this.#closeUnused();
        break;
      case "retry":
        this.#all?.hurry();
        for (const stream of this.#runs.values()) stream.hurry();
        break;
      case "bye":
        this.leave(page);
        break;
    }
  }

  #deliver(events: RunEvent[]): void {
    for (const page of this.#pages) {
      const wanted = page.followsAll ? events : events.filter((event) => page.follows.has(event.run_id));
      if (wanted.length) page.send({ type: "events", events: wanted });
    }
  }

  /** The stream of one run brings its stored events, too, and often earlier; pages drop what they know. */
  #deliverRun(run: string, events: RunEvent[]): void {
    for (const page of this.#pages) if (page.follows.has(run)) page.send({ type: "events", events });
  }

  #change(state: ConnectionState["state"]): void {
    if (state === this.#connection.state) return;
    const isFirst = this.#connection.state === "connecting";
    this.#connection = { state, heard: this.#connection.heard || Date.now() };
    for (const page of this.#pages) {
      page.send({ type: "connection", connection: this.#connection });
      // The stream of all runs begins with the present. A run that is followed is read from its own last event.
      if (state === "live" && (page.followsAll || !isFirst)) page.send({ type: "gap" });
    }
  }

  #look(run: string, after: number): void {
    this.#closeUnused();
    const known = this.#runs.get(run);
    if (known !== undefined) {
      // The one that was looked at last is at the end.
      this.#runs.delete(run);
      this.#runs.set(run, known);
      return;
    }
    const stream = new Stream(
      `/api/v1/runs/${run}/events?after=${after}`,
      (events) => this.#deliverRun(run, events),
      () => {},
      () => {},
      () => {
        if (this.#runs.get(run) === stream) this.#runs.delete(run);
      },
    );
    this.#runs.set(run, stream);
    for (const [oldest, old] of this.#runs) {
      if (this.#runs.size <= RUN_STREAMS) break;
      old.close();
      this.#runs.delete(oldest);
    }
  }

  #closeUnused(): void {
    const used = new Set([...this.#pages].map((page) => page.looksAt));
    for (const [run, stream] of this.#runs) {
      if (used.has(run)) continue;
      stream.close();
      this.#runs.delete(run);
    }
  }
}
