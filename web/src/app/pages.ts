// The pages, and which addresses show them. Each is loaded when it is needed.
import { later } from "../ui/later";

/** One route: a new workflow stays open when its first save gives it an address. */
export const EDITOR = /^\/workflows\/(?:new|[^/]+\/edit)\/?$/;

export const RunsPage = later(() => import("../pages/runs/RunsPage"));
export const RunPage = later(() => import("../pages/run/RunPage"));
export const ComparePage = later(() => import("../pages/compare/ComparePage"));
export const WorkflowsPage = later(() => import("../pages/workflows/WorkflowsPage"));
export const EditorPage = later(() => import("../pages/editor/EditorPage"));
export const MemoryPage = later(() => import("../pages/memory/MemoryPage"));
export const AuditPage = later(() => import("../pages/audit/AuditPage"));
export const SettingsPage = later(() => import("../pages/settings/SettingsPage"));

/** By the first segment of their addresses. */
const PAGES: Record<string, { load: () => Promise<void> | null }> = {
  "": RunsPage,
  runs: RunPage,
  workflows: WorkflowsPage,
  memory: MemoryPage,
  audit: AuditPage,
  settings: SettingsPage,
};

/** Loads the page of an address, so that it is drawn without a moment in which only the frame is there; null if it
 * is loaded. It never fails: an error is shown when the page is drawn. */
export function loadPage(path: string): Promise<void> | null {
  const [, first = "", , third] = path.split("/");
  const page = third === "compare" ? ComparePage : EDITOR.test(path) ? EditorPage : PAGES[first];
  return page?.load()?.catch(() => {}) ?? null;
}
