// What the list shows is kept in the URL, so that it survives a reload, the back button works, and it can be
// sent to somebody else.
import type { RunStatus } from "../../api/statuses";
import { SINCE, type Since } from "../../i18n/since";

export const GROUPS = ["needs", "running", "finished"] as const;
export type Group = (typeof GROUPS)[number];

/** The statuses of the API, in each section of the list. */
export const STATUSES: Record<Group, readonly RunStatus[]> = {
  needs: ["waiting", "suspended_locked", "paused"],
  running: ["running"],
  finished: ["completed", "failed", "stopped"],
};

export interface Filter {
  q: string;
  /** A status, a section, or empty for all. */
  status: string;
  workflow: string;
  since: Since | "";
}

export const ALL: Filter = { q: "", status: "", workflow: "", since: "" };

const ORDER = ["q", "status", "workflow", "since"] as const;

function isStatus(text: string): boolean {
  return (GROUPS as readonly string[]).includes(text) || Object.values(STATUSES).some((some: readonly string[]) => some.includes(text));
}

/** Reads the query of a URL. What it does not know counts as not set, since people edit URLs. */
export function parseFilter(search: string): Filter {
  const pairs = new URLSearchParams(search);
  const status = pairs.get("status") ?? "";
  const since = pairs.get("since") ?? "";
  return {
    q: pairs.get("q") ?? "",
    status: isStatus(status) ? status : "",
    workflow: pairs.get("workflow") ?? "",
    since: Object.hasOwn(SINCE, since) ? (since as Since) : "",
  };
}

/** The path of the list with this filter. */
export function filterPath(filter: Filter): string {
  const pairs = new URLSearchParams();
  for (const name of ORDER) if (filter[name]) pairs.set(name, filter[name]);
  const text = pairs.toString();
  return text ? `/?${text}` : "/";
}

export function isFiltered(filter: Filter): boolean {
  return ORDER.some((name) => filter[name].trim() !== "");
}

/** The statuses to ask for in a section; none if the filter leaves nothing of it. */
export function statusesOf(filter: Filter, group: Group): readonly string[] {
  if (filter.status === "" || filter.status === group) return STATUSES[group];
  return STATUSES[group].filter((status) => status === filter.status);
}

/** The query of the API without its status. */
export function queryOf(filter: Filter, now: number): Record<string, string> {
  const query: Record<string, string> = {};
  if (filter.q.trim()) query["q"] = filter.q.trim();
  if (filter.workflow) query["workflow"] = filter.workflow;
  if (filter.since) query["since"] = new Date(now - SINCE[filter.since] * 1000).toISOString();
  return query;
}
