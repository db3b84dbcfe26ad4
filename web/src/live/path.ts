// The path of an event: what is around a node, outermost first. It is apart from addresses, since lists of runs
// need only those.
import type { PathStep } from "../api/events";
import { nameOf, SEPARATOR } from "./address";

/** The address of the round that a path ends with. */
export function roundAddress(path: readonly PathStep[]): string {
  let text = "";
  path.forEach(({ loop, node = "", part, round, repeat }, at) => {
    const joint = at === 0 ? "" : round && path[at - 1]?.round ? "." : "/";
    const isLast = at === path.length - 1;
    text += joint + label(loop ?? node) + (part ? `#${part}` : "") + (round ? `[${round}]` : "") + (repeat && !isLast ? `#${repeat}` : "");
  });
  return text;
}

/** The node in a drawing: its id, after those of the nodes around it. */
export function pathKey(path: readonly PathStep[], nodeId: string): string {
  return [...path.flatMap((step) => step.node ?? []), nodeId].map(label).join("/");
}

function label(name: string): string {
  return name.replace(/[/[\]#%]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The key of a node in a drawing: its id, after those of the nodes that contain it. `composites` are the keys
 * of nodes that repeat what is inside them: `Each[2]/Say` is the node Say in the loop agent Each, and
 * `Writer[2]/Say` is Say in a loop, which is no node. */
export function nodeKey(address: string, composites: ReadonlySet<string>): string {
  const segments = address.split(SEPARATOR);
  const last = segments.pop() ?? "";
  let prefix = "";
  segments.forEach((segment, at) => {
    const name = nameOf(segment);
    // A loop agent may be the entry of a loop, too: `Each[1]/Each` is its execution in round 1 of that loop.
    const isLoop = name !== segment && (!composites.has(prefix + name) || nameOf(segments[at + 1] ?? last) === name);
    if (!isLoop) prefix += `${name}/`;
  });
  return prefix + nameOf(last);
}
