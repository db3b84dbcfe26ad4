// The types of nodes that the server has, in the order and the groups of the palette.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { NodeItem } from "../../../document/model";
import { useLanguage } from "../../../i18n/messages";
import { descriptionsIn } from "../descriptions";

export interface Port {
  name: string;
  title: string;
}

export interface NodeType {
  name: string;
  title: string;
  description: string;
  ports: readonly Port[];
}

export const GROUPS = ["people", "guards", "bodies", "flow"] as const;
export type Group = (typeof GROUPS)[number];

const GROUP_OF: Record<string, Group> = {
  agent: "people",
  human: "people",
  loop: "guards",
  loop_counter: "guards",
  loop_timer: "guards",
  loop_agent: "bodies",
  debate: "bodies",
  vote: "bodies",
};
const ORDER = ["agent", "human", "loop", "loop_counter", "loop_timer", "loop_agent", "debate", "vote", "passthrough", "literal", "python", "subgraph"];

/** A type that this page does not know is part of the flow. */
export const groupOf = (type: string): Group => GROUP_OF[type] ?? "flow";

const place = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

export function useNodeTypes(): readonly NodeType[] {
  const language = useLanguage((state) => state.language);
  const { data } = useQuery(descriptionsIn(language));
  return useMemo(
    () =>
      Object.values((data?.node_types ?? {}) as unknown as Record<string, NodeType>).sort(
        (one, other) => place(one.name) - place(other.name) || one.name.localeCompare(other.name),
      ),
    [data],
  );
}

/** The types whose name, title or description has all words. */
export function matching(types: readonly NodeType[], search: string): readonly NodeType[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = (type: NodeType) => {
    const [name, title] = [type.name.toLowerCase(), type.title.toLowerCase()];
    if (words.every((word) => name.startsWith(word) || title.startsWith(word))) return 0;
    if (words.every((word) => name.includes(word) || title.includes(word))) return 1;
    return words.every((word) => `${name} ${title} ${type.description.toLowerCase()}`.includes(word)) ? 2 : 3;
  };
  const ranked = types.map((type) => ({ type, rank: rank(type) })).filter((one) => one.rank < 3);
  return ranked.sort((one, other) => one.rank - other.rank).map((one) => one.type);
}

/** The ports by which edges may leave a node: the plain one has an empty name. */
export function portsOf(types: readonly NodeType[], node: NodeItem, plain: string): readonly Port[] {
  const own = types.find((type) => type.name === node.type)?.ports ?? [];
  const config = node.value.config as { ports?: unknown; timeout?: unknown; deadline?: unknown } | undefined;
  const chosen = Array.isArray(config?.ports) ? config.ports.filter((port): port is string => typeof port === "string") : [];
  const ways = [...own.filter((port) => port.name !== "error"), ...chosen.map((name) => ({ name, title: name }))];
  const timeout = node.type === "human" && !ways.some((port) => port.name === "timeout") ? [{ name: "timeout", title: "timeout" }] : [];
  const failures = own.filter((port) => port.name === "error");
  // A node that always chooses a port has no plain way out.
  const isChoosing = own.some((port) => port.name !== "error");
  return [...(isChoosing ? [] : [{ name: "", title: plain }]), ...ways, ...timeout, ...failures];
}
