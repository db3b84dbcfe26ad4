// Two runs side by side: their loops and rounds have the same addresses, so they are aligned by address.
import type { Execution, LoopEntry, Round, RunModel } from "../../live/run_model";

export interface AlignedLoop {
  /** The address without the number of the round, such as `Planner[2].Coder`; empty for what is in no loop. */
  stem: string;
  loop: string;
  depth: number;
  a: LoopEntry | undefined;
  b: LoopEntry | undefined;
}

export interface Row {
  number: number;
  /** The address of the round; empty for what is in no loop. */
  address: string;
  a: Round | undefined;
  b: Round | undefined;
  /** Whether both have it from the same execution: it was copied when one was forked. */
  isShared: boolean;
}

/** What one node wrote in a round, in both runs. */
export interface Said {
  address: string;
  nodeId: string;
  a: Execution | undefined;
  b: Execution | undefined;
}

/** Whether one run was forked from the other, or both from a third: a fork begins with the events of its
 * parent, so both started at the same millisecond. */
export function areRelated(a: RunModel, b: RunModel): boolean {
  return a.started > 0 && a.started === b.started && a.workflow === b.workflow && a.input === b.input;
}

/** The loops of both runs in the order in which they were entered, and what is in no loop if somebody speaks
 * there, or there is no loop at all. */
export function alignLoops(a: RunModel, b: RunModel, speakers: ReadonlySet<string>): AlignedLoop[] {
  const stems = [...new Set([...a.order, ...b.order])];
  const loops = stems.map((stem): AlignedLoop => {
    const one = a.loops.get(stem);
    const other = b.loops.get(stem);
    const any = one ?? other;
    return { stem, loop: any?.loop ?? stem, depth: any?.depth ?? 0, a: one, b: other };
  });
  const outside = [a, b].some((model) =>
    model.sequence.some((address) => {
      const execution = model.executions.get(address);
      return execution !== undefined && execution.round === "" && speakers.has(execution.node_id);
    }),
  );
  if (outside || loops.length === 0) loops.push({ stem: "", loop: "", depth: 0, a: undefined, b: undefined });
  return loops;
}

/** The rounds of one loop in both runs. */
export function alignRounds(
  loop: AlignedLoop,
  a: RunModel,
  b: RunModel,
  speakers: ReadonlySet<string>,
  related = areRelated(a, b),
): Row[] {
  if (loop.stem === "") return [{ number: 0, address: "", a: undefined, b: undefined, isShared: false }];
  const rows = new Map<number, Row>();
  const row = (round: Round): Row => {
    let found = rows.get(round.number);
    if (found === undefined) {
      found = { number: round.number, address: round.address, a: undefined, b: undefined, isShared: false };
      rows.set(round.number, found);
    }
    return found;
  };
  for (const round of loop.a?.rounds ?? []) row(round).a = round;
  for (const round of loop.b?.rounds ?? []) row(round).b = round;
  const all = [...rows.values()].sort((x, y) => x.number - y.number);
  // Nothing after the first difference is shared, whatever it looks like.
  let isSame = related;
  for (const one of all) {
    isSame &&= one.a !== undefined && one.b !== undefined && isCopied(one.a, one.b, a, b, speakers);
    one.isShared = isSame;
  }
  return all;
}

function isCopied(x: Round, y: Round, a: RunModel, b: RunModel, speakers: ReadonlySet<string>): boolean {
  if (x.executions.length === 0 && x.inner.length === 0) return false;
  if (!haveSame(x.executions, y.executions) || !haveSame(x.inner, y.inner)) return false;
  for (const address of x.executions) {
    const one = a.executions.get(address);
    const other = b.executions.get(address);
    if (one === undefined || other === undefined || one.ended === null || other.ended === null) return false;
    if (one.status !== other.status || one.output !== other.output) return false;
    // Pure nodes of a fork may decide again; what was paid for was copied with its time.
    if (speakers.has(one.node_id) && one.ended !== other.ended) return false;
  }
  for (const stem of x.inner) {
    const one = a.loops.get(stem)?.rounds ?? [];
    const other = b.loops.get(stem)?.rounds ?? [];
    if (one.length !== other.length) return false;
    for (const [at, round] of one.entries()) {
      const opposite = other[at];
      if (opposite === undefined || !isCopied(round, opposite, a, b, speakers)) return false;
    }
  }
  return true;
}

function haveSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

/** What the nodes of a round wrote. Nodes that only decide are left out, unless nobody else wrote anything. */
export function alignSaid(row: Row, a: RunModel, b: RunModel, speakers: ReadonlySet<string>): Said[] {
  const ofA = executionsOf(a, row.a, row.address);
  const ofB = executionsOf(b, row.b, row.address);
  const said = new Map<string, Said>();
  for (const [side, executions] of [["a", ofA], ["b", ofB]] as const) {
    for (const execution of executions) {
      const one = said.get(execution.address);
      if (one !== undefined) one[side] = execution;
      else {
        const fresh: Said = { address: execution.address, nodeId: execution.node_id, a: undefined, b: undefined };
        fresh[side] = execution;
        said.set(execution.address, fresh);
      }
    }
  }
  const all = [...said.values()];
  const spoken = all.filter((one) => speakers.has(one.nodeId));
  return spoken.length ? spoken : all.filter((one) => textOf(one.a) || textOf(one.b));
}

function executionsOf(model: RunModel, round: Round | undefined, address: string): Execution[] {
  const addresses = address === "" ? model.sequence : (round?.executions ?? []);
  const found: Execution[] = [];
  for (const one of addresses) {
    const execution = model.executions.get(one);
    if (execution !== undefined && execution.round === address) found.push(execution);
  }
  return found;
}

/** What an execution returned, or has written so far. */
export function textOf(execution: Execution | undefined): string {
  if (execution === undefined) return "";
  return execution.output ?? execution.error ?? execution.streamed;
}

/** An output such as `{"score": 86, "note": "Good rhythm."}` as a score and its words. */
export function presented(text: string): { score: number | null; text: string } {
  if (!text.trimStart().startsWith("{")) return { score: null, text };
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    return { score: null, text };
  }
  const { score, ...rest } = fields as Record<string, unknown>;
  if (typeof score !== "number") return { score: null, text };
  const words = Object.entries(rest).map(([name, value]) =>
    typeof value === "string" ? value : `${name}: ${JSON.stringify(value)}`,
  );
  return { score, text: words.join(" · ") };
}

/** How many rounds at the beginning are shared. */
export function sharedCount(rows: readonly Row[]): number {
  const first = rows.findIndex((row) => !row.isShared);
  return first < 0 ? rows.length : first;
}
