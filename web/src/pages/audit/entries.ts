// Entries of the audit log: where they lead, and what matches a search.
import type { AuditEntry } from "../../api/schema";

/** The page of what an entry is about; empty if there is none. */
export function targetPath(entry: AuditEntry): string {
  const { action, subject } = entry;
  const [area, verb] = action.split(".");
  if (area === "run") {
    // A run that starts has no id yet: the entry names its workflow.
    if (verb === "start") return typeof entry.details.saved === "string" && entry.details.saved ? workflowPath(entry.details.saved) : "";
    return verb === "delete" ? "" : `/runs/${encodeURIComponent(subject)}`;
  }
  if (area === "workflow") return verb === "delete" ? "" : workflowPath(subject);
  if (area === "memory") return `/memory?group=${encodeURIComponent(subject || "~")}`;
  return "";
}

/** `tea/polish` is the workflow polish of the group tea. */
function workflowPath(named: string): string {
  const at = named.indexOf("/");
  const name = encodeURIComponent(named.slice(at + 1));
  return at < 0 ? `/workflows/${name}` : `/workflows/${name}?group=${encodeURIComponent(named.slice(0, at))}`;
}

export function whoDid(entry: AuditEntry): { name: string; role: string } | null {
  if (entry.who === null) return null;
  return { name: String(entry.who.name ?? ""), role: String(entry.who.role ?? "") };
}

/** `at: Writer[3], group: tea`; fields without a value are left out. */
export function detailsText(details: Record<string, unknown>): string {
  return Object.entries(details)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

export function matches(entry: AuditEntry, query: string): boolean {
  const text = `${whoDid(entry)?.name ?? ""} ${entry.action} ${entry.subject} ${detailsText(entry.details)}`.toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
