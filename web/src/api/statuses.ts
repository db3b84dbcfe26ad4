// Written by tools/web_types.py from kernel/events.py. `make tables` writes it again.

export type RunStatus = "running" | "waiting" | "paused" | "suspended_locked" | "completed" | "failed" | "stopped";
export type NodeStatus = "running" | "completed" | "failed" | "skipped";
export type RoundStatus = "running" | "completed" | "failed" | "cancelled" | "stopped";
export type ToolStatus = "waiting" | "running" | "completed" | "failed" | "refused" | "rejected" | "repeated" | "cancelled";

/** Whether nothing more can happen to a run. */
export function isOver(status: RunStatus): status is "completed" | "failed" | "stopped" {
  return status === "completed" || status === "failed" || status === "stopped";
}
