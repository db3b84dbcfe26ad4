// The streams of all tabs. A browser opens at most six connections to a server, so tabs share them:
//
//   one run      one stream for the run that a visible tab shows, since only that has text as it is written;
//                for at most RUN_STREAMS runs, those that were looked at last
//   all runs     one stream, unless those suffice: lists, and tabs that nobody looks at, need it
//
// The hub lives in a SharedWorker, or in the page where there are none. Both kinds of stream bring the same
// stored events. The hub sends each page an event once, as far as it knows; a page drops what it has already, by
// `seq`, and reads what is missing.
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
  | { type: "gap" }
  /** The server numbers events otherwise now: what is known of this run, or of all runs, does not fit any more. */
  | { type: "reset"; run?: string };

type Send = (message: FromHub) => void;

export class Page {
  follows = new Set<string>();
  followsAll = false;
  looksAt = "";
  /** For each run, the last event up to which the page has got all, since the first one that was sent. */
  #last = new Map<string, number>();

  constructor(readonly send: Send) {}

  deliver(events: RunEvent[]): void {
    const fresh = events.filter((event) => this.#isFresh(event));
    if (fresh.length) this.send({ type: "events", events: fresh });
  }

  /** Whether no stream has brought this event before. After a gap nobody knows, and the page gets it again. */
  #isFresh({ run_id, seq }: RunEvent): boolean {
    if (seq === undefined) return true;
    const last = this.#last.get(run_id);
    if (last !== undefined && seq <= last) return false;
    if (last === undefined || seq === last + 1) this.#last.set(run_id, seq);
    return true;
  }

  unfollow(run: string): void {
    this.follows.delete(run);
    this.#last.delete(run);
  }

  reset(run?: string): void {
    if (run === undefined) this.#last.clear();
    else this.#last.delete(run);
    this.send({ type: "reset", run });
  }
}

/** A stream that connects again until it is closed. */
class Stream {
  #aborter = new AbortController();
  #wake: () => void = () => {};
  lastId = "";
  isLive = false;

  constructor(
    readonly url: string,
    readonly onEvents: (events: RunEvent[]) => void,
    readonly onState: (state: ConnectionState["state"]) => void,
    readonly onHeard: () => void,
    readonly onReset: () => void,
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
            if (!this.isLive) {
              this.isLive = true;
              this.onState("live");
            }
          },
        );
      } catch (error) {
        if (error instanceof NotFound) break;
        if (error instanceof SignedOut) state = "signed-out";
      }
      this.isLive = false;
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
      else if (message.event === "reset") this.onReset();
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
    this.#update();
    return page;
  }

  leave(page: Page): void {
    this.#pages.delete(page);
    this.#update();
    if (this.#pages.size === 0) this.#connection = { state: "connecting", heard: 0 };
  }

  take(page: Page, message: ToHub): void {
    switch (message.type) {
      case "follow-all":
        page.followsAll = message.isOn;
        // What the page has read may be older than this: events in between went to other pages only.
        if (message.isOn && this.#all?.isLive) page.send({ type: "gap" });
        break;
      case "follow":
        page.follows.add(message.run);
        break;
      case "unfollow":
        page.unfollow(message.run);
        break;
      case "look":
        page.looksAt = message.run;
        this.#look(message.run, message.after);
        break;
      case "look-away":
        if (page.looksAt === message.run) page.looksAt = "";
        break;
      case "retry":
        this.#all?.hurry();
        for (const stream of this.#runs.values()) stream.hurry();
        break;
      case "bye":
        this.leave(page);
        return;
    }
    this.#update();
  }

  #deliver(events: RunEvent[]): void {
    for (const page of this.#pages) {
      page.deliver(page.followsAll ? events : events.filter((event) => page.follows.has(event.run_id)));
    }
  }

  #deliverRun(run: string, events: RunEvent[]): void {
    for (const page of this.#pages) if (page.follows.has(run)) page.deliver(events);
  }

  /** All streams lead to the same server, so the last one that has something to say is right. */
  #change(state: ConnectionState["state"]): void {
    if (state === this.#connection.state) return;
    this.#connection = { state, heard: this.#connection.heard || Date.now() };
    for (const page of this.#pages) page.send({ type: "connection", connection: this.#connection });
  }

  #heard = (): void => {
    this.#connection = { ...this.#connection, heard: Date.now() };
  };

  #openAll(): Stream {
    return new Stream(
      "/api/v1/events",
      (events) => this.#deliver(events),
      (state) => {
        this.#change(state);
        if (state !== "live") return;
        // It begins with the present, and what a page has read may be older.
        for (const page of this.#pages) if (this.#needsAll(page)) page.send({ type: "gap" });
      },
      this.#heard,
      () => {
        for (const page of this.#pages) page.reset();
      },
    );
  }

  /** Whether a page follows something that no stream of a single run brings. */
  #needsAll(page: Page): boolean {
    return page.followsAll || [...page.follows].some((run) => !this.#runs.has(run));
  }

  #look(run: string, after: number): void {
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
      (state) => this.#change(state),
      this.#heard,
      () => {
        for (const page of this.#pages) if (page.follows.has(run)) page.reset(run);
      },
      () => {
        if (this.#runs.get(run) !== stream) return;
        this.#runs.delete(run);
        this.#update();
      },
    );
    this.#runs.set(run, stream);
  }

  /** Closes the streams that nobody needs, and opens that of all runs if somebody does. */
  #update(): void {
    const pages = [...this.#pages];
    const used = new Set(pages.map((page) => page.looksAt));
    const unused = [...this.#runs.keys()].filter((run) => !used.has(run));
    // The first ones were looked at longest ago.
    const oldest = [...this.#runs.keys()].filter((run) => used.has(run)).slice(0, -RUN_STREAMS);
    for (const run of [...unused, ...oldest]) {
      this.#runs.get(run)?.close();
      this.#runs.delete(run);
    }
    // One stream at least says whether the server is there.
    const isNeeded = pages.length > 0 && (this.#runs.size === 0 || pages.some((page) => this.#needsAll(page)));
    if (isNeeded) this.#all ??= this.#openAll();
    else {
      this.#all?.close();
      this.#all = null;
    }
  }
}
