// Events as the server sends them (docs/events.md), and the connection that brings them.
import type { RunEvent } from "../api/events";

export type { RunEvent } from "../api/events";

/** An event of one name. */
export type EventOf<Name extends RunEvent["event"]> = Extract<RunEvent, { event: Name }>;

export type Connection = "connecting" | "live" | "reconnecting" | "signed-out";

export interface ConnectionState {
  state: Connection;
  /** When the last byte came, in milliseconds. */
  heard: number;
}
