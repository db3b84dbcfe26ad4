// What the list of workflows and the page of one share.
import { call, withQuery } from "../../api/client";
import { queryClient } from "../../api/queries";
import type { WorkflowSummary } from "../../api/schema";
import { useMessages } from "../../i18n/messages";
import { messages } from "./messages";

/** The page of a workflow. */
export function pathOfWorkflow(workflow: { name: string; group: string }): string {
  return withQuery(`/workflows/${encodeURIComponent(workflow.name)}`, { group: workflow.group });
}

/** A workflow in the editor. */
export function editorPath({ name, group }: { name: string; group: string }, query: Record<string, string> = {}): string {
  return withQuery(`/workflows/${encodeURIComponent(name)}/edit`, { group, ...query });
}

/** The name of a workflow in the path of its page. The router decodes only a part of it. */
export function nameIn(path: string): string {
  const raw = path.replace(/^\/workflows\//, "");
  try {
    return decodeURIComponent(raw);
  } catch {
    // Somebody has typed a `%` into the address.
    return raw;
  }
}

/** The list of runs, with the drawer that starts a run of this workflow. */
export function startPath({ name, group }: { name: string; group: string }): string {
  return `/?start=${encodeURIComponent(group ? `${group}/${name}` : name)}`;
}

export async function deleteWorkflow(workflow: WorkflowSummary): Promise<void> {
  await call(`/workflows/${encodeURIComponent(workflow.name)}`, {
    method: "DELETE",
    query: { group: workflow.group },
    // Not if somebody has saved it again meanwhile.
    headers: { "if-match": `"${workflow.version}"` },
  });
  await queryClient.invalidateQueries({ queryKey: ["workflows"] });
}

export function State({ workflow }: { workflow: WorkflowSummary }) {
  const texts = useMessages(messages);
  if (workflow.draft) return <span className="plain-chip plain-chip-bad">{texts.draft(workflow.errors)}</span>;
  return <span className="plain-chip plain-chip-good">{texts.ready}</span>;
}
