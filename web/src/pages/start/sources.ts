// What the drawer reads from the server: workflows, their texts, checks, forecasts and scripts.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import { useMe } from "../../api/queries";
import { readRunScript } from "../../api/run_script";
import type {
  CheckResult,
  ForecastResult,
  RunList,
  TemplateView,
  WorkflowList,
  WorkflowSummary,
  WorkflowView,
} from "../../api/schema";
import { useSettled } from "../../ui/useSettled";
import { useTemplates } from "../workflows/templates";
import type { Value } from "./start";

export type Source =
  | { type: "saved"; key: string; name: string; summary: WorkflowSummary }
  | { type: "template"; key: string; name: string; template: TemplateView };

export interface Rights {
  mayStart: boolean;
  /** Texts that are not saved take the role author. */
  mayStartTexts: boolean;
  isLoaded: boolean;
}

export function useRights(): Rights {
  const role = useMe().data?.role;
  const mayStartTexts = role === "author" || role === "admin";
  return { mayStart: mayStartTexts || role === "operator", mayStartTexts, isLoaded: role !== undefined };
}

/** All that can be started: saved workflows, and for authors the templates that run here. */
export function useSources(rights: Rights) {
  const saved = useQuery({ queryKey: ["workflows", "all"], queryFn: readWorkflows });
  const templates = useTemplates(rights.mayStartTexts);
  const sources: Source[] = [
    ...(saved.data ?? []).map((summary): Source => ({
      type: "saved",
      key: `saved:${summary.group}/${summary.name}`,
      name: summary.name,
      summary,
    })),
    ...(templates.data?.templates ?? [])
      .filter((template) => template.ok)
      .map((template): Source => ({ type: "template", key: `template:${template.name}`, name: template.name, template })),
  ];
  const isLoaded = rights.isLoaded && saved.data !== undefined && (!rights.mayStartTexts || templates.data !== undefined);
  return { sources, isLoaded, error: saved.error ?? templates.error };
}

/** The source with this name. A saved workflow may be named with its group, and comes before a template. */
export function sourceNamed(named: string, sources: readonly Source[]): Source | undefined {
  const key = `saved:${named.includes("/") ? named : `/${named}`}`;
  return sources.find((one) => one.key === key) ?? sources.find((one) => one.name === named);
}

async function readWorkflows(): Promise<WorkflowSummary[]> {
  const all: WorkflowSummary[] = [];
  let cursor: string | null | undefined;
  do {
    const page: WorkflowList = await call<WorkflowList>("/workflows", { query: { limit: 200, cursor } });
    all.push(...page.workflows);
    cursor = page.next;
  } while (cursor);
  return all;
}

/** The text of a source. A saved one is read when it is chosen. */
export function useText(source: Source | undefined) {
  const summary = source?.type === "saved" ? source.summary : undefined;
  const saved = useQuery({
    queryKey: ["workflow-text", source?.key, summary?.version],
    queryFn: () => call<WorkflowView>(`/workflows/${encodeURIComponent(summary?.name ?? "")}`, { query: { group: summary?.group } }),
    enabled: summary !== undefined,
  });
  if (source?.type === "template") return { text: source.template.text, error: null };
  return { text: summary === undefined ? undefined : saved.data?.text, error: saved.error };
}

export function useCheck(text: string | undefined) {
  return useQuery({
    queryKey: ["start-check", text],
    queryFn: ({ signal }) => call<CheckResult>("/check", { body: { text }, signal }),
    enabled: text !== undefined,
    staleTime: Infinity,
  });
}

export function useForecast(text: string | undefined, variables: Record<string, Value>, limits: Record<string, number>) {
  const body = useSettled({ text, variables, limits });
  return useQuery({
    queryKey: ["start-forecast", body],
    queryFn: ({ signal }) => call<ForecastResult>("/forecast", { body, signal }),
    enabled: body.text !== undefined,
    placeholderData: keepPreviousData,
    staleTime: Infinity,
    // What is wrong with a value is said at its field, and it changes while somebody types.
    retry: false,
  });
}

/** Runs whose replies can be used again. */
export function useEarlierRuns(workflow: string, isEnabled: boolean) {
  return useQuery({
    queryKey: ["start-runs", workflow],
    queryFn: () => call<RunList>("/runs", { query: { workflow, limit: 30 } }),
    enabled: isEnabled && workflow !== "",
  });
}

export function useRunScript(run: string, isEnabled: boolean) {
  return useQuery({
    queryKey: ["start-script", run],
    queryFn: ({ signal }) => readRunScript(run, signal),
    enabled: isEnabled && run !== "",
  });
}
