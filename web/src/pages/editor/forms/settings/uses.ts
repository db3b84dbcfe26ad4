// Which agents use a model profile or a memory.
import type { WorkflowDocument } from "../../../../document/model";
import { isMapping, type Mapping } from "../values";

export const DEFAULT_PROFILE = "default";

function agents(document: WorkflowDocument): { id: string; config: Mapping }[] {
  return [...document.nodes.values()]
    .filter((node) => node.type === "agent")
    .map((node) => ({ id: node.id, config: isMapping(node.value.config) ? node.value.config : {} }));
}

/** The ids of the agents that name a profile, in their order in the text. */
export function usersOfProfile(document: WorkflowDocument, name: string): readonly string[] {
  return agents(document)
    .filter(({ config }) => String(config.profile_id ?? "") === name)
    .map(({ id }) => id);
}

export interface MemoryUse {
  id: string;
  reads: boolean;
  writes: boolean;
}

/** The agents that use a memory of their graph. A name alone reads and writes. */
export function usersOfMemory(document: WorkflowDocument, name: string): readonly MemoryUse[] {
  return agents(document).flatMap(({ id, config }): MemoryUse[] => {
    const uses: readonly unknown[] = Array.isArray(config.memories) ? config.memories : [];
    const use = uses.find((one) => (isMapping(one) ? one.name : one) === name);
    if (use === undefined) return [];
    return [{ id, reads: !isMapping(use) || use.read !== false, writes: !isMapping(use) || use.write !== false }];
  });
}

/** The models that the file already names, as `provider:name`. */
export function modelsIn(document: WorkflowDocument): readonly string[] {
  const file = isMapping(document.value) ? document.value : {};
  const profiles = isMapping(file.models) ? Object.values(file.models) : [];
  const named = [...profiles, ...agents(document).map(({ config }) => config)].flatMap((one) => (isMapping(one) && typeof one.model === "string" ? [one.model] : []));
  return [...new Set(named)].sort();
}
