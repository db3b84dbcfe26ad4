// Requests that are sent both ahead (src/early.ts) and by the part of the page that shows their answers.
import type { Options } from "./client";

export type ApiRequest = readonly [path: string, options?: Options];

export const ME: ApiRequest = ["/me"];

export const runRequest = (id: string): ApiRequest => [`/runs/${id}`];

export const planRequest = (id: string): ApiRequest => [`/runs/${id}/plan`];

/** The stored events of a run after one of them, as JSON Lines. */
export const storedEventsRequest = (id: string, after: number): ApiRequest => [
  `/runs/${id}/events`,
  { query: { after, follow: false }, headers: { accept: "application/jsonl" } },
];

/** Counts and cost of all runs since midnight. */
export function summaryRequest(): ApiRequest {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  return ["/runs/summary", { query: { since: midnight.toISOString() } }];
}
