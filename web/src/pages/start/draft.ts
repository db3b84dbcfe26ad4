// What somebody has filled in is kept until the tab is closed, so that closing the drawer by accident costs
// nothing.
import { keep, readKeptObject } from "../../ui/kept";

export interface Draft {
  /** `saved:GROUP/NAME` or `template:NAME`; empty before anything is chosen. */
  workflow: string;
  input: string;
  /** Structured fields of the input as JSON; null if there are none. */
  data: string | null;
  /** Only those that were changed. */
  variables: Record<string, string>;
  limits: Record<string, string>;
  script: "none" | "text" | "template" | "run";
  scriptText: string;
  scriptRun: string;
  breakpoints: string[];
}

export const EMPTY_DRAFT: Draft = {
  workflow: "",
  input: "",
  data: null,
  variables: {},
  limits: {},
  script: "none",
  scriptText: "",
  scriptRun: "",
  breakpoints: [],
};

const KEY = "roundel.start";

export function readDraft(): Draft {
  return { ...EMPTY_DRAFT, ...readKeptObject<Draft>("tab", KEY) };
}

export function keepDraft(draft: Draft): void {
  keep("tab", KEY, JSON.stringify(draft));
}

/** The drawer begins with this template when it is opened next. */
export function prepareTemplate(name: string): void {
  keepDraft({ ...EMPTY_DRAFT, workflow: `template:${name}`, script: "template" });
}
