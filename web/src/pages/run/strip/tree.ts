// What the strip draws, read from the model of a run: loops, their rounds, and the times without work.
//
// A round that has not changed keeps its object, so that its cell is not drawn again.
import type { RunPlan } from "../../../api/schema";
import { roundOf } from "../../../live/address";
import type { Execution, Interval, LoopEntry, Round, RunModel } from "../../../live/run_model";
import { bestRound, decisionOf } from "../context";

export type Measure = "score" | "novelty" | "none";

/** What one speaker of a debate said in a round. */
export interface Turn {
  speaker: string;
  address: string;
  text: string;
  isRunning: boolean;
}

/** How the last loop inside a round ended. */
export interface Left {
  loop: string;
  rounds: number;
  reason: string;
  /** The round whose output was kept; 0 if it was the last. */
  kept: number;
}

/** A round; or, with a name, the execution of a node outside of all loops. */
export interface StripRound {
  address: string;
  stem: string;
  loop: string;
  number: number;
  name: string;
  from: number;
  to: number;
  isOpen: boolean;
  /** Its place beside others that run at the same time, from 0. */
  lane: number;
  /** From 0 to 1: how high the cell is filled; null if nothing is known. */
  fill: number | null;
  /** The score or the novelty itself. */
  value: number | null;
  measure: Measure;
  /** The type of the error; empty if nothing failed. */
  failed: string;
  isRetried: boolean;
  isBest: boolean;
  /** Whether a lock names what was said in it. */
  isStale: boolean;
  /** The node that runs now. */
  active: string;
  said: string;
  left: Left | null;
  turns: readonly Turn[];
  inner: readonly StripLoop[];
  /** All rounds inside, of all depths. */
  count: number;
}

export interface StripLoop {
  stem: string;
  loop: string;
  depth: number;
  kind: "rounds" | "lanes" | "debate";
  measure: Measure;
  /** Whether its rounds contain loops, so that they are bars and no cells. */
  isOuter: boolean;
  rounds: readonly StripRound[];
  exit: LoopEntry["exit"];
  /** How many elements it has, if it is over a list; otherwise 0. */
  elements: number;
}

export interface Pause extends Omit<Interval, "status"> {
  status: Interval["status"] | "nothing";
  /** The round of the lock, or the node that is waited for. */
  at: string;
  /** Who unlocked it. */
  by: string;
}

export interface StripTree {
  /** The loops of the top level, and nodes outside of loops as a loop without a name, in the order of time. */
  loops: readonly StripLoop[];
  pauses: readonly Pause[];
  /** The state in which the run rests now; null while it works. */
  rest: Pause | null;
  depths: number;
  speakers: readonly string[];
  roundCount: number;
}

const IDLE_AFTER = 1000;
const NOTHING_AFTER = 5000;
/** Shorter work outside of loops is not worth a cell. */
const NODE_AFTER = 300;

interface Facts {
  failed: string;
  isRetried: boolean;
  said: string;
  turns: readonly Turn[];
}

const factsOf = new WeakMap<Round, Facts>();
const madeOf = new WeakMap<Round, StripRound>();

function firstLine(text: string): string {
  const line = text.trimStart();
  const end = line.search(/[\r\n]/);
  return (end < 0 ? line : line.slice(0, end)).slice(0, 160);
}

function facts(model: RunModel, round: Round): Facts {
  const known = factsOf.get(round);
  if (known !== undefined) return known;
  const found: Facts = { failed: "", isRetried: false, said: "", turns: [] };
  const turns: Turn[] = [];
  for (const address of round.executions) {
    const execution = model.executions.get(address);
    if (execution === undefined) continue;
    if (execution.status === "failed") found.failed = execution.error_type || "Error";
    if (execution.starts > 1) found.isRetried = true;
    const text = execution.output ? firstLine(execution.output) : "";
    found.said ||= text;
    turns.push({ speaker: execution.node_id, address, text, isRunning: execution.ended === null });
  }
  if (!found.failed && round.failed.length) {
    found.failed = model.executions.get(round.failed[0] ?? "")?.error_type || "Error";
  }
  found.turns = turns;
  factsOf.set(round, found);
  return found;
}

function isSame(one: StripRound, other: StripRound): boolean {
  for (const key of Object.keys(one) as (keyof StripRound)[]) if (one[key] !== other[key]) return false;
  return true;
}

class Reader {
  readonly #active = new Map<string, string>();
  readonly #stale = new Set<string>();
  readonly #scales = new Map<string, { measure: Measure; low: number; high: number }>();
  readonly #types = new Map<string, string>();
  readonly #outer = new Set<string>();
  depths = 1;
  roundCount = 0;
  speakers: readonly string[] = [];

  constructor(
    readonly model: RunModel,
    readonly plan: RunPlan,
    readonly novelty: ReadonlyMap<string, number>,
    readonly now: number,
    /** Whether the run works: in a run that rests nothing is running. */
    readonly isWorking: boolean,
  ) {
    for (const address of model.active) {
      const name = model.executions.get(address)?.node_id ?? "";
      if (!model.loops.has(address)) this.#active.set(roundOf(address), name);
    }
    for (const lock of model.locks) {
      const messages = Array.isArray(lock.data.messages) ? lock.data.messages : [];
      for (const message of messages as { address?: unknown }[]) this.#stale.add(roundOf(String(message.address ?? "")));
    }
    for (const node of plan.drawing.nodes) this.#types.set(node.id, node.type);
    for (const proof of plan.loops) this.depths = Math.max(this.depths, proof.depth + 1);
    for (const entry of model.loops.values()) {
      this.depths = Math.max(this.depths, entry.depth + 1);
      const around = model.rounds.get(entry.parent);
      if (around !== undefined) this.#outer.add(around.loop);
      this.roundCount += entry.rounds.length;
      this.#measure(entry);
    }
    for (const proof of plan.loops) {
      const hasInner = plan.loops.some(
        (one) => one.depth === proof.depth + 1 && one.nodes.every((node) => proof.nodes.includes(node)),
      );
      if (hasInner) this.#outer.add(proof.id);
    }
  }

  /** Fills of a loop are comparable: all its entries have the same scale. */
  #measure(entry: LoopEntry): void {
    const scale = this.#scales.get(entry.loop) ?? { measure: "none", low: 0, high: 0 };
    let second = scale.high;
    for (const round of entry.rounds) {
      if (round.score === null) continue;
      scale.measure = "score";
      if (round.score > scale.high) {
        second = scale.high;
        scale.high = round.score;
      } else if (round.score > second) second = round.score;
      if (round.score < scale.low) scale.low = round.score;
    }
    // One score far above all others would flatten them.
    if (entry.rounds.length > 9 && second > 0 && scale.high > 3 * second) scale.high = second;
    if (scale.measure === "none" && this.#types.get(entry.loop) !== "loop_agent") {
      const decision = decisionOf(this.plan, entry.loop);
      scale.measure = decision?.exit_on_score != null ? "score" : "novelty";
    }
    this.#scales.set(entry.loop, scale);
  }

  measureOf(loop: string): Measure {
    return this.#scales.get(loop)?.measure ?? "none";
  }

  #fill(loop: string, value: number | null, measure: Measure): number | null {
    if (value === null) return null;
    if (measure !== "score") return Math.max(0, Math.min(1, value));
    const { low, high } = this.#scales.get(loop) ?? { low: 0, high: 1 };
    const top = high <= 1 ? 1 : high <= 10 ? 10 : high <= 100 ? 100 : high;
    return Math.min(1, (value - low) / (top - low || 1));
  }

  loop(entry: LoopEntry): StripLoop {
    const type = this.#types.get(entry.loop);
    const measure = this.measureOf(entry.loop);
    const best = measure === "score" ? bestRound(entry)?.address : undefined;
    const isOuter = this.#outer.has(entry.loop);
    const kind = type === "debate" ? "debate" : entry.rounds.some((round) => round.lane > 0) ? "lanes" : "rounds";
    const rounds = entry.rounds.map((round) => this.#round(round, measure, round.address === best));
    if (kind === "debate" && !this.speakers.length) {
      const names = rounds.flatMap((round) => round.turns.map((turn) => turn.speaker));
      const region = this.plan.drawing.nodes.find((node) => node.id === entry.loop && node.type === "debate")?.region;
      const planned = this.plan.drawing.nodes.filter((node) => node.parent === region).map((node) => node.id);
      this.speakers = [...new Set([...planned, ...names])];
    }
    const elements = entry.rounds[0]?.elements ?? 0;
    return { stem: entry.stem, loop: entry.loop, depth: entry.depth, kind, measure, isOuter, rounds, exit: entry.exit, elements };
  }

  #round(round: Round, measure: Measure, isBest: boolean): StripRound {
    const found = facts(this.model, round);
    const inner = round.inner
      .map((stem) => this.model.loops.get(stem))
      .filter((entry) => entry !== undefined)
      .map((entry) => this.loop(entry));
    const value = measure === "score" ? round.score : measure === "novelty" ? (this.novelty.get(round.address) ?? null) : null;
    const made: StripRound = {
      address: round.address,
      stem: round.stem,
      loop: round.loop,
      number: round.number,
      name: "",
      from: round.started,
      to: round.isOpen ? Math.max(this.now, round.ended) : round.ended,
      isOpen: round.isOpen && this.isWorking,
      lane: round.lane,
      fill: this.#fill(round.loop, value, measure),
      value,
      measure,
      failed: found.failed,
      isRetried: found.isRetried,
      isBest,
      isStale: this.#stale.has(round.address),
      active: round.isOpen && this.isWorking ? (this.#active.get(round.address) ?? "") : "",
      said: round.element ? firstLine(round.element) : found.said,
      left: inner.length ? this.#left(inner) : null,
      turns: found.turns,
      inner: inner.length ? inner : NONE,
      count: inner.reduce((sum, loop) => sum + loop.rounds.length + loop.rounds.reduce((all, one) => all + one.count, 0), 0),
    };
    const before = madeOf.get(round);
    if (before !== undefined && isSame(before, made)) return before;
    madeOf.set(round, made);
    return made;
  }

  #left(inner: readonly StripLoop[]): Left | null {
    const last = inner.findLast((loop) => loop.exit !== null);
    if (last?.exit == null) return null;
    const { kept, reason, rounds } = last.exit;
    return { loop: last.loop, rounds: rounds || last.rounds.length, reason, kept: kept === rounds ? 0 : kept };
  }

  /** Nodes outside of all loops: each of them in a run without loops, otherwise those that took time. */
  nodes(): StripLoop[] {
    const { model } = this;
    const found: StripRound[] = [];
    const isPlain = this.plan.loops.length === 0 && model.loops.size === 0;
    for (const address of model.sequence) {
      const one = model.executions.get(address);
      if (one === undefined || one.round || one.status === "skipped" || model.loops.has(address)) continue;
      if (isAround(model, address)) continue;
      const to = one.ended ?? this.now;
      const matters = isPlain || to - one.started >= NODE_AFTER || one.status === "failed";
      if (matters) found.push(nodeRound(one, to));
    }
    if (!found.length) return [];
    const loop = (rounds: StripRound[], kind: StripLoop["kind"]): StripLoop => ({
      stem: "",
      loop: "",
      depth: 0,
      kind,
      measure: "none",
      isOuter: false,
      rounds,
      exit: null,
      elements: 0,
    });
    if (isPlain) {
      const lanes = assignLanes(found);
      const placed = found.map((round, index) => ({ ...round, lane: lanes[index] ?? 0 }));
      return [loop(placed, lanes.some((lane) => lane > 0) ? "lanes" : "rounds")];
    }
    return found.map((round) => loop([round], "rounds"));
  }
}

const NONE: readonly StripLoop[] = [];

/** Whether loops or other nodes ran inside this execution. */
function isAround(model: RunModel, address: string): boolean {
  const execution = model.executions.get(address);
  if (execution === undefined || !model.composites.has(execution.key)) return false;
  const inside = `${address}/`;
  return model.sequence.some((one) => one.startsWith(inside)) || model.order.some((one) => one.startsWith(inside));
}

function nodeRound(one: Execution, to: number): StripRound {
  return {
    address: one.address,
    stem: "",
    loop: "",
    number: 0,
    name: one.node_id,
    from: one.started,
    to: Math.max(one.started, to),
    isOpen: one.status === "running",
    lane: 0,
    fill: null,
    value: null,
    measure: "none",
    failed: one.status === "failed" ? one.error_type || "Error" : "",
    isRetried: one.starts > 1,
    isBest: false,
    isStale: false,
    active: one.status === "running" ? one.node_id : "",
    said: one.output ? firstLine(one.output) : "",
    left: null,
    turns: [],
    inner: NONE,
    count: 0,
  };
}

/** The lanes of nodes outside of loops, each the first that is free when the node begins. One that runs has no end
 * yet. */
export function assignLanes(nodes: readonly { from: number; to: number; isOpen?: boolean }[]): number[] {
  const order = nodes.map((_, index) => index).sort((a, b) => (nodes[a]?.from ?? 0) - (nodes[b]?.from ?? 0) || a - b);
  const ends: number[] = [];
  const found = new Array<number>(nodes.length).fill(0);
  for (const index of order) {
    const node = nodes[index];
    if (node === undefined) continue;
    let lane = ends.findIndex((end) => end <= node.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = node.isOpen ? Infinity : Math.max(node.to, node.from);
    found[index] = lane;
  }
  return found;
}

function pausesOf(model: RunModel): Pause[] {
  const found: Pause[] = [];
  let locks = 0;
  for (const one of model.idle) {
    let at = one.address;
    let by = "";
    if (one.status === "suspended_locked") {
      const lock = model.locks[locks++];
      at = lock?.address ?? at;
      by = lock?.unlocked?.by ?? "";
    }
    if (one.to === null || one.to - one.from >= IDLE_AFTER) found.push({ ...one, at, by });
  }
  // Nothing ran, and no status says why: the server was away, or a timer was waited for.
  let until = model.started;
  for (const address of model.sequence) {
    const one = model.executions.get(address);
    if (one === undefined) continue;
    if (one.started - until > NOTHING_AFTER) {
      const from = until;
      const known = found.some((pause) => pause.from < one.started && (pause.to ?? Infinity) > from);
      if (!known) found.push({ status: "nothing", from, to: one.started, address: "", reason: "", at: "", by: "" });
    }
    until = Math.max(until, one.ended ?? Infinity);
  }
  return found.sort((a, b) => a.from - b.from);
}

/** `now` is the present for a run that works. */
export function readTree(model: RunModel, plan: RunPlan, novelty: ReadonlyMap<string, number>, now: number): StripTree {
  const pauses = pausesOf(model);
  const rest = pauses.find((pause) => pause.to === null) ?? null;
  const reader = new Reader(model, plan, novelty, rest?.from ?? Math.max(now, model.latest), rest === null);
  const top = model.order
    .map((stem) => model.loops.get(stem))
    .filter((entry) => entry !== undefined)
    .filter((entry) => !model.rounds.has(entry.parent))
    .map((entry) => reader.loop(entry));
  const loops = [...top, ...reader.nodes()].sort((a, b) => (a.rounds[0]?.from ?? 0) - (b.rounds[0]?.from ?? 0));
  return {
    loops,
    pauses: pauses.filter((pause) => pause.to !== null),
    rest,
    depths: reader.depths,
    speakers: reader.speakers,
    roundCount: reader.roundCount,
  };
}
