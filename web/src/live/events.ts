// Events as the server sends them (docs/events.md).

export interface RunEvent {
  /** Missing for a transient event. */
  seq?: number;
  event: string;
  timestamp: string;
  run_id: string;
  node_id?: string;
  address?: string;
  data: Record<string, unknown>;
}

export type Connection = "connecting" | "live" | "reconnecting" | "signed-out";

export interface ConnectionState {
  state: Connection;
  /** When the last byte came, in milliseconds. */
  heard: number;
}
