// Reads server-sent events with `fetch`: unlike EventSource, it can say where to continue, notices a
// connection that has died silently, and tells why the server refused.

export interface SseMessage {
  id: string;
  event: string;
  data: string;
}

/** Finds messages in the chunks of a stream. */
export class SseParser {
  #rest = "";

  push(chunk: string): SseMessage[] {
    const blocks = (this.#rest + chunk).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    const found: SseMessage[] = [];
    for (const block of blocks) {
      const message: SseMessage = { id: "", event: "", data: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        const name = at < 0 ? line : line.slice(0, at);
        if (name === "id" || name === "event" || name === "data") message[name] = line.slice(at + 2);
      }
      if (message.event) found.push(message);
    }
    return found;
  }
}

export class SignedOut extends Error {}
export class NotFound extends Error {}

/** No byte for so long means that the connection is dead: the server sends one each 15 seconds. */
export const SILENCE_MS = 40_000;

/** Reads a stream until it ends. Throws if it cannot be read, or has fallen silent. */
export async function readStream(
  url: string,
  lastId: string,
  signal: AbortSignal,
  onMessages: (messages: SseMessage[]) => void,
  onHeard: () => void,
): Promise<void> {
  const aborter = new AbortController();
  const abort = () => aborter.abort();
  signal.addEventListener("abort", abort, { once: true });
  let timer = setTimeout(abort, SILENCE_MS);
  try {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (lastId) headers["last-event-id"] = lastId;
    const response = await fetch(url, { headers, signal: aborter.signal, cache: "no-store" });
    if (response.status === 401) throw new SignedOut();
    if (response.status === 404) throw new NotFound();
    if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
    onHeard();
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE_MS);
      onHeard();
      const messages = parser.push(decoder.decode(value, { stream: true }));
      if (messages.length) onMessages(messages);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** How long to wait before try number n, from 0: at once, then longer, never over 10 seconds. */
export function backoff(tries: number): number {
  return tries === 0 ? 0 : Math.min(10_000, 250 * 2 ** tries) * (0.75 + Math.random() / 2);
}
