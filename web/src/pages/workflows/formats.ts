// The formats that a workflow is exported to, for menus. The code that exports loads when somebody does.
import { toastError } from "../../ui/toasts";
import { messages } from "./messages";

export const FORMATS = ["yaml", "svg", "png"] as const;
export type Format = (typeof FORMATS)[number];

/** The texts of the menus, in each language. */
export const EXPORT_TEXTS: Readonly<Record<Format, { en: string; zh: string }>> = {
  yaml: { en: messages.en.exportYaml, zh: messages.zh.exportYaml },
  svg: { en: messages.en.exportSvg, zh: messages.zh.exportSvg },
  png: { en: messages.en.exportPng, zh: messages.zh.exportPng },
};

/** Gives the reader a file of a workflow; tells what went wrong. */
export async function exportWorkflow(format: Format, name: string, text: string): Promise<void> {
  try {
    const { exportFile } = await import("./export");
    await exportFile(format, name, text);
  } catch (error) {
    toastError(error);
  }
}
