import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Hub, RUN_STREAMS, type FromHub } from "./hub";
import { SseParser } from "./sse";

/** Streams that the test feeds. */
class FakeServer {
  streams: { url: string; lastId: string; push: (text: string) => void; end: () => void; aborted: boolean }[] = [];

  fetch = (url: string, options: { headers: Record<string, string>; signal: AbortSignal }): Promise<Response> => {
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const stream = {
          url,
          lastId: options.headers["last-event-id"] ?? "",
          aborted: false,
          push: (text: string) => controller.enqueue(encoder.encode(text)),
          end: () => controller.close(),
        };
        this.streams.push(stream);
        options.signal.addEventListener("abort", () => {
          stream.aborted = true;
          try {
            controller.error(new DOMException("aborted", "AbortError"));
          } catch {
            // It has ended already.
          }
        });
      },
    });
    return Promise.resolve(new Response(body));
  };

  get open() {
    return this.streams.filter((stream) => !stream.aborted);
  }
}

const settle = () => vi.advanceTimersByTimeAsync(5);
const message = (id: string, run: string, seq: number) =>
  `id: ${id}\nevent: loop_round\ndata: {"seq":${seq},"event":"loop_round","run_id":"${run}","timestamp":"","data":{}}\n\n`;

function events(received: FromHub[]): string[] {
  return received.flatMap((one) => (one.type === "events" ? one.events.map((event) => `${event.run_id} ${event.seq}`) : []));
}

describe("the hub", () => {
  let server: FakeServer;
  beforeEach(() => {
    vi.useFakeTimers();
    server = new FakeServer();
    vi.stubGlobal("fetch", server.fetch);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("shares one stream among all tabs, and gives each what it follows", async () => {
    const hub = new Hub();
    const received: FromHub[][] = [];
    const pages = ["a", "b"].map((run) => {
      const own: FromHub[] = [];
      received.push(own);
      const page = hub.join((one) => own.push(one));
      hub.take(page, { type: "follow", run });
      return page;
    });
    await settle();
    expect(server.open.length).toBe(1);
    server.open[0]?.push(message("1", "a", 1) + message("2", "b", 1));
    await settle();
    expect(received.map(events)).toEqual([["a 1"], ["b 1"]]);
    for (const page of pages) hub.leave(page);
    await settle();
    expect(server.open.length).toBe(0);
  });

  it("has few streams of single runs, of those that were looked at last", async () => {
    const hub = new Hub();
    for (const run of ["a", "b", "c", "d"]) {
      const page = hub.join(() => {});
      hub.take(page, { type: "follow", run });
      hub.take(page, { type: "look", run, after: 3 });
      await settle();
    }
    const urls = server.open.map((stream) => stream.url);
    expect(urls.length).toBe(1 + RUN_STREAMS);
    expect(urls).toContain("/api/v1/runs/d/events?after=3");
  });

  it("needs no stream of all runs for a tab that shows one, until nobody looks at it", async () => {
    const hub = new Hub();
    const received: FromHub[] = [];
    const page = hub.join((one) => received.push(one));
    hub.take(page, { type: "follow", run: "a" });
    hub.take(page, { type: "look", run: "a", after: 3 });
    await settle();
    expect(server.open.map((stream) => stream.url)).toEqual(["/api/v1/runs/a/events?after=3"]);
    expect(received.at(-1)).toMatchObject({ type: "connection", connection: { state: "live" } });
    hub.take(page, { type: "look-away", run: "a" });
    await settle();
    expect(server.open.map((stream) => stream.url)).toEqual(["/api/v1/events"]);
    expect(received.at(-1)).toEqual({ type: "gap" });
    expect(received.filter((one) => one.type === "connection").length).toBe(2);
  });

  it("follows all runs again when the one that is shown is over: it may be retried", async () => {
    const hub = new Hub();
    const page = hub.join(() => {});
    hub.take(page, { type: "follow", run: "a" });
    hub.take(page, { type: "look", run: "a", after: 3 });
    await settle();
    server.open[0]?.push("event: end\ndata: {}\n\n");
    server.open[0]?.end();
    await settle();
    expect(server.streams.at(-1)?.url).toBe("/api/v1/events");
  });

  it("sends a page what two streams bring only once, and after a gap rather twice", async () => {
    const hub = new Hub();
    const received: FromHub[] = [];
    const page = hub.join((one) => received.push(one));
    hub.take(page, { type: "follow-all", isOn: true });
    hub.take(page, { type: "follow", run: "a" });
    hub.take(page, { type: "look", run: "a", after: 0 });
    await settle();
    const [all, one] = server.open;
    one?.push(message("1", "a", 1) + message("2", "a", 2));
    await settle();
    all?.push(message("7:1", "a", 2) + message("8", "a", 3) + message("9", "b", 1));
    await settle();
    one?.push(message("3", "a", 3) + message("4", "a", 4));
    await settle();
    expect(events(received)).toEqual(["a 1", "a 2", "a 3", "b 1", "a 4"]);
    all?.push(message("20", "a", 9));
    await settle();
    one?.push(message("5", "a", 5) + message("9", "a", 9));
    await settle();
    expect(events(received).slice(5)).toEqual(["a 9", "a 5", "a 9"]);
  });

  it("continues where it was, and says that something may be missing", async () => {
    const hub = new Hub();
    const received: FromHub[] = [];
    const page = hub.join((one) => received.push(one));
    hub.take(page, { type: "follow-all", isOn: true });
    await settle();
    server.open[0]?.push(message("7:1", "a", 1));
    await settle();
    server.streams[0]?.end();
    await vi.advanceTimersByTimeAsync(3000);
    const states = received.flatMap((one) => (one.type === "connection" ? [one.connection.state] : []));
    expect(states).toEqual(["connecting", "live", "reconnecting", "live"]);
    expect(server.streams[1]?.lastId).toBe("7:1");
    expect(received.at(-1)).toEqual({ type: "gap" });
  });

  it("tells a page that follows everything to read once more: the stream begins with the present", async () => {
    const hub = new Hub();
    const gaps = (received: FromHub[]) => received.filter((one) => one.type === "gap").length;
    const [first, second, single]: [FromHub[], FromHub[], FromHub[]] = [[], [], []];
    hub.take(hub.join((one) => first.push(one)), { type: "follow-all", isOn: true });
    expect(gaps(first)).toBe(0);
    await settle();
    expect(gaps(first)).toBe(1);
    hub.take(hub.join((one) => second.push(one)), { type: "follow-all", isOn: true });
    hub.take(hub.join((one) => single.push(one)), { type: "follow", run: "a" });
    expect([gaps(second), gaps(single)]).toEqual([1, 0]);
  });

  it("notices a connection that has died silently", async () => {
    const hub = new Hub();
    hub.join(() => {});
    await settle();
    await vi.advanceTimersByTimeAsync(45_000);
    expect(server.streams[0]?.aborted).toBe(true);
    expect(server.streams.length).toBeGreaterThan(1);
  });
});

describe("server-sent events", () => {
  it("are found wherever the chunks are cut", () => {
    const text = `: \n\n${message("1", "a", 1)}${message("2", "a", 2)}event: end\ndata: {}\n\n`;
    for (let cut = 0; cut <= text.length; cut++) {
      const parser = new SseParser();
      const found = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))];
      expect(found.map((one) => `${one.event} ${one.id}`)).toEqual(["loop_round 1", "loop_round 2", "end "]);
    }
  });
});
