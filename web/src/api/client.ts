// The one way to the server: JSON in, JSON out, and problem details as errors.
import type { Problem } from "./schema";

/** The server refused, or could not be reached. `status` is 0 without an answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly type: string,
    message: string,
    readonly problem?: Problem,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

const PREFIX = "urn:roundel:problem:";

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface Options {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export function withQuery(path: string, query: Query = {}): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) pairs.append(name, String(one));
  }
  const text = pairs.toString();
  return text ? `${path}?${text}` : path;
}

function request(url: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  return fetch(url, {
    method: options.method ?? (options.body === undefined ? "GET" : "POST"),
    headers,
    body: options.body === undefined ? undefined : JSON.stringify(options.body),
    signal: options.signal,
  });
}

/** Answers that nobody has asked for yet, by URL. */
const ahead = new Map<string, { since: number; answer: Promise<Response> }>();
/** After so many milliseconds an answer may be out of date. */
const AHEAD_MS = 10_000;

/** Sends a request that a part of the page will send, too, as soon as it is loaded. The first `send` of the
 * same URL takes the answer. */
export function sendAhead(path: string, options: Options = {}): void {
  const url = withQuery(`/api/v1${path}`, options.query);
  const answer = request(url, options);
  // Whoever takes the answer sees the error; without anybody it is none.
  answer.catch(() => {});
  ahead.set(url, { since: Date.now(), answer });
}

/** The answer to a request that was sent ahead; null if there is none, or the server refused it. */
async function takeAhead(url: string): Promise<Response | null> {
  const found = ahead.get(url);
  ahead.delete(url);
  if (found === undefined || Date.now() - found.since > AHEAD_MS) return null;
  const response = await found.answer;
  // The reader may have signed in since.
  return response.ok ? response : null;
}

/** The complete answer; throws ApiError for each status that is no success. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const url = withQuery(`/api/v1${path}`, options.query);
  let response: Response;
  try {
    const isRead = (options.method ?? "GET") === "GET" && options.body === undefined;
    response = (isRead && ahead.has(url) && (await takeAhead(url))) || (await request(url, options));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

const unreachable = () => new ApiError(0, "unreachable", "the server cannot be reached");

async function problemOf(response: Response): Promise<ApiError> {
  let problem: Problem | undefined;
  try {
    problem = (await response.json()) as Problem;
  } catch {
    // A proxy answered, and not the server.
  }
  const type = problem?.type?.startsWith(PREFIX) ? problem.type.slice(PREFIX.length) : "unknown";
  const text = problem?.detail || problem?.title || `${response.status} ${response.statusText}`;
  return new ApiError(response.status, type, text, problem);
}

/** The JSON of an answer. */
export async function call<T>(path: string, options: Options = {}): Promise<T> {
  const response = await send(path, options);
  if (response.status === 204) return undefined as T;
  try {
    return (await response.json()) as T;
  } catch (error) {
    // The connection broke in the middle of the answer.
    throw error instanceof TypeError ? unreachable() : error;
  }
}
