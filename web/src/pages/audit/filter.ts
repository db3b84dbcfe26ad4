// Which entries of the audit log the server sends.
import { SINCE, type Since } from "../../i18n/since";

export interface AuditFilter {
  by: string;
  action: string;
  /** The id of a run, the name of a workflow, or how it begins. */
  subject: string;
  since: Since | "";
}

export const EVERYTHING: AuditFilter = { by: "", action: "", subject: "", since: "" };

export function isFiltered(filter: AuditFilter): boolean {
  return Object.values(filter).some((value) => value.trim() !== "");
}

/** The query of the API. */
export function queryOf(filter: AuditFilter, now: number): Record<string, string> {
  const { since, ...rest } = filter;
  const texts = Object.entries(rest).map(([name, value]) => [name, value.trim()] as const);
  const query: Record<string, string> = Object.fromEntries(texts.filter(([, value]) => value !== ""));
  if (since) query["since"] = new Date(now - SINCE[since] * 1000).toISOString();
  return query;
}
