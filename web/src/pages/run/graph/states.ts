// What nodes, loops and lines show: now, or at the end of a past round.
import type { Line, Scene } from "../../../graph/scene";
import { isInside, parseAddress, roundOf } from "../../../live/address";
import { nodeKey } from "../../../live/path";
import type { ShownNodeStatus, Round, RunModel } from "../../../live/run_model";

export interface NodeView {
  status: ShownNodeStatus;
  /** How often it has started. */
  runs: number;
  /** The address of its newest execution; empty if it has not run. */
  address: string;
  /** Whether that execution belongs to the current rounds of all loops around it. */
  isCurrent: boolean;
}

export interface LoopView {
  /** The newest round; 0 if it was not entered yet. */
  round: number;
  /** Whether that round goes on. */
  isOpen: boolean;
}

export interface Past {
  round: Round;
  nodes: ReadonlyMap<string, NodeView>;
  /** By the key of the region. */
  loops: ReadonlyMap<string, LoopView>;
}

export const NOT_RUN: NodeView = { status: "idle", runs: 0, address: "", isCurrent: false };
export const NOT_ENTERED: LoopView = { round: 0, isOpen: false };

/** The state of a node now. */
export function nodeNow(model: RunModel, key: string): NodeView {
  const node = model.nodes.get(key);
  if (node === undefined) return NOT_RUN;
  const { status, runs, address } = node;
  return { status, runs, address, isCurrent: isCurrent(model, address) };
}

function isCurrent(model: RunModel, address: string): boolean {
  if (roundOf(address) === "") return true;
  for (const step of parseAddress(address).rounds) {
    const round = model.rounds.get(step.address);
    // Rounds of a parallel loop agent overlap, so several may be open.
    if (round === undefined || round.isOpen) continue;
    if (model.loops.get(step.stem)?.rounds.at(-1) !== round) return false;
  }
  return true;
}

/** The key of the region in which the rounds of an entry of a loop run; empty if none is drawn. */
export function regionOfStem(scene: Scene, stem: string, composites: ReadonlySet<string>): string {
  const node = scene.byKey.get(nodeKey(stem, composites));
  if (node === undefined) return "";
  const around = scene.regions.get(node.parent);
  if (around?.kind === "loop" && around.entry === node.key) return around.key;
  if (node.region && scene.regions.get(node.region)?.repeats) return node.region;
  // A loop with several entries may be entered elsewhere than at the one that is drawn.
  return around?.kind === "loop" ? around.key : "";
}

interface Entered {
  read: number;
  newest: Map<string, string>;
}

/** An editor makes a new scene with each edit, so those that are gone are forgotten. */
const entered = new WeakMap<RunModel, WeakMap<Scene, Entered>>();

/** The stem of the newest entry of a loop. Entries are only ever added, so each is looked at once. */
function newestStem(model: RunModel, scene: Scene, region: string): string | undefined {
  let known = entered.get(model);
  if (known === undefined) {
    known = new WeakMap();
    entered.set(model, known);
  }
  let found = known.get(scene);
  if (found === undefined) {
    found = { read: 0, newest: new Map() };
    known.set(scene, found);
  }
  for (; found.read < model.order.length; found.read++) {
    const stem = model.order[found.read] ?? "";
    found.newest.set(regionOfStem(scene, stem, model.composites), stem);
  }
  return found.newest.get(region);
}

/** The state of a loop now. */
export function loopNow(model: RunModel, scene: Scene, region: string): LoopView {
  const stem = newestStem(model, scene, region);
  const entry = stem === undefined ? undefined : model.loops.get(stem);
  const round = entry?.rounds.at(-1);
  if (entry === undefined || round === undefined) return NOT_ENTERED;
  return { round: round.number, isOpen: round.isOpen && entry.exit === null };
}

/** All states at the end of a round. Several events may share a millisecond; what belongs to the round counts
 * as before its end, and what does not as after it. */
export function stateAt(model: RunModel, scene: Scene, round: Round): Past {
  const moment = round.ended;
  const isBefore = (address: string, started: number) => started < moment || (started === moment && isInside(address, round.address));
  const nodes = new Map<string, NodeView>();
  for (const address of model.sequence) {
    const execution = model.executions.get(address);
    if (execution === undefined || !isBefore(address, execution.started)) continue;
    const isOver = execution.ended !== null && execution.ended <= moment;
    nodes.set(execution.key, {
      status: isOver ? execution.status : "running",
      runs: (nodes.get(execution.key)?.runs ?? 0) + 1,
      address,
      isCurrent: false,
    });
  }
  const loops = new Map<string, LoopView>();
  /** The newest round of each entry at that moment. */
  const current = new Set<string>();
  for (const stem of model.order) {
    const entry = model.loops.get(stem);
    const newest = entry?.rounds.findLast((one) => isBefore(one.address, one.started) || isInside(round.address, one.address));
    if (entry === undefined || newest === undefined) continue;
    current.add(newest.address);
    const isOpen = isInside(round.address, newest.address) || entry.exit === null || entry.exit.at > moment;
    loops.set(regionOfStem(scene, stem, model.composites), { round: newest.number, isOpen });
  }
  for (const [key, view] of nodes) {
    const isCurrent = parseAddress(view.address).rounds.every((step) => current.has(step.address) || !model.rounds.has(step.address));
    nodes.set(key, { ...view, isCurrent });
  }
  return { round, nodes, loops };
}

/** How close to the start of its target a source must have ended to count beside the last one, in
 * milliseconds. */
const TOGETHER = 50;

/** Whether a node runs now because a message came over this line. */
export function isLit(model: RunModel, line: Line): boolean {
  const { source, target, triggers, kind } = line.drawn;
  if (!triggers || kind !== "edge") return false;
  const node = model.nodes.get(target);
  if (node === undefined || (node.status !== "running" && node.status !== "waiting")) return false;
  const started = model.executions.get(node.address)?.started;
  if (started === undefined) return false;
  const own = endedBefore(model, line, node.address, started);
  if (own === null) return false;
  for (const rival of line.rivals) {
    if (rival === line || rival.drawn.source === source) continue;
    const other = endedBefore(model, rival, node.address, started);
    if (other !== null && other > own && started - own > TOGETHER) return false;
  }
  return true;
}

/** When the source of a line ended, if that can have led to this execution of its target; else null. */
function endedBefore(model: RunModel, line: Line, target: string, started: number): number | null {
  const node = model.nodes.get(line.drawn.source);
  const execution = node === undefined ? undefined : model.executions.get(node.address);
  if (execution === undefined || execution.status !== "completed" || execution.ended === null) return null;
  if (execution.ended > started) return null;
  return follows(execution.address, target, line.drawn.back) ? execution.ended : null;
}

/** Whether the target runs in the round of the source, or in the next one for a back edge. */
export function follows(source: string, target: string, isBack: boolean): boolean {
  const from = parseAddress(source).rounds;
  const to = parseAddress(target).rounds;
  const shared = Math.min(from.length, to.length);
  for (let at = 0; at < shared; at++) {
    const [one, other] = [from[at], to[at]];
    if (one === undefined || other === undefined || one.stem !== other.stem) return false;
    if (one.round === other.round) continue;
    return isBack && other.round === one.round + 1 && at === to.length - 1;
  }
  // A line into a loop leads to its first round; a back edge begins the others.
  return !isBack && to.slice(shared).every((step) => step.round === 1);
}

/** The key of the loop that a lock holds; empty if the run is not locked, or not in a loop. */
export function lockedLoop(model: RunModel, scene: Scene): string {
  if (model.status !== "suspended_locked") return "";
  const step = parseAddress(model.locks.at(-1)?.address ?? "").rounds.at(-1);
  return step === undefined ? "" : regionOfStem(scene, step.stem, model.composites);
}
