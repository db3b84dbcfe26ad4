// The examples that ship with the package.
import { useQuery } from "@tanstack/react-query";
import { call, withQuery } from "../../api/client";
import type { TemplateList } from "../../api/schema";

export function useTemplates(enabled = true) {
  return useQuery({ queryKey: ["templates"], queryFn: () => call<TemplateList>("/templates"), staleTime: Infinity, enabled });
}

/** A new workflow in the editor, with the text of a template. */
export function templatePath(name: string): string {
  return withQuery("/workflows/new", { template: name });
}
