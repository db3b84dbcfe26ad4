// A run as its events tell it: nodes, rounds, executions, and when it worked and when it waited.
//
// `RunModel.apply` takes events in order. The maps stay the same, and an entry is replaced when it changes,
// so a component that selects one entry is drawn again only for changes of it.
import { isOver, type NodeStatus, type RoundStatus, type RunStatus } from "../api/statuses";
import { loopOf, parseAddress } from "./address";
import { nodeKey, pathKey, roundAddress } from "./path";
import type { AsideUsage, ModelCallEnded, PathStep, RunUsage } from "../api/events";
import type { IdleTime, ViewedEdit, ViewedExecution, ViewedExit, ViewedLock, ViewedLoop, ViewedQuestion, ViewedRound, ViewedTool, ViewedUnlock, ViewedWarning } from "../api/view";
import type { EventOf, RunEvent } from "./events";

/** How a node is shown: `idle` before its first execution, and `waiting` while somebody is asked. */
export type ShownNodeStatus = NodeStatus | "idle" | "waiting";

/** A node in the graph, over the whole run. The key is its id, after those of the nodes that contain it. */
export interface NodeState {
  key: string;
  status: ShownNodeStatus;
  /** How often it has started. */
  runs: number;
  /** The address of its newest execution. */
  address: string;
}

/** These fields of a part of the view, always there. What has no value in the view is empty here, too. */
type Full<Part, Field extends keyof Part> = Required<Pick<Part, Field>>;

/** A time, in milliseconds; it is text in the view. */
type Times<Name extends string> = Record<Name, number>;

export interface ToolCall extends Full<ViewedTool, "address" | "name" | "arguments" | "status" | "round">, Pick<ViewedTool, "result">, Times<"started"> {
  ended: number | null;
}

export interface Question extends Full<ViewedQuestion, "address" | "node_id" | "prompt" | "caller">, Times<"asked"> {
  tool: NonNullable<ViewedQuestion["tool"]> | null;
  deadline: string | null;
}

/** One execution of a node. */
export interface Execution
  extends Full<ViewedExecution, "address" | "node_id" | "key" | "round" | "starts" | "usage" | "streamed" | "attempt" | "handled">,
    Pick<ViewedExecution, "path" | "output" | "data" | "report" | "error" | "error_type" | "attempts" | "reason" | "answer">,
    Times<"started"> {
  status: ViewedExecution["status"];
  ended: number | null;
  models: readonly string[];
  tools: readonly ToolCall[];
  progress: { text: string; fraction: number | null } | null;
  question: Question | null;
  warnings: readonly string[];
}

export interface Round
  extends Full<ViewedRound, "address" | "number" | "status" | "parent" | "lane" | "usage" | "priced" | "failures" | "element" | "cut_off">,
    Times<"started" | "ended"> {
  stem: string;
  loop: string;
  isOpen: boolean;
  /** How many elements there are; 0 if it is not over a list. */
  elements: number;
  triggered_by: readonly string[];
  score: number | null;
  executions: readonly string[];
  inner: readonly string[];
  /** Executions inside it that failed and were not handled by an edge, as long as they do not run again. */
  failed: readonly string[];
}

/** One entry of a loop, with its rounds. */
export interface LoopEntry extends Full<ViewedLoop, "loop" | "parent" | "depth" | "is_node"> {
  /** Its address: that of its rounds, without their number. */
  stem: string;
  rounds: readonly Round[];
  /** 0 if no round has a score. */
  best: number;
  /** `kept` is 0 if no node says which output was kept. */
  exit: (Full<ViewedExit, "reason" | "by" | "rounds" | "kept"> & { at: number }) | null;
}

/** A time in which the run did not work. */
export interface Interval extends Full<IdleTime, "reason" | "address"> {
  status: Exclude<IdleTime["status"], "completed" | "failed" | "stopped"> | "over";
  from: number;
  to: number | null;
}

export interface Lock extends Full<ViewedLock, "seq" | "address" | "what" | "data">, Times<"at"> {
  unlocked: (Full<ViewedUnlock, "by" | "reason"> & Times<"at"> & { data: Record<string, unknown> }) | null;
}

const NO_USAGE: RunUsage = { model_calls: 0, tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, unpriced_calls: 0 };

/** The tokens of a usage. */
export function tokensOf(usage = NO_USAGE): number {
  return usage.input_tokens + usage.output_tokens;
}

/** What a round cost; null if the cost of no call in it is known. */
export function costOf(round: Round): number | null {
  return round.priced ? (round.usage.cost_usd ?? 0) : null;
}

/** What an event says about the status of the run. */
interface Status {
  status: RunStatus;
  reason?: string;
  address?: string;
  breakpoint?: string;
  questions?: string[] | null;
}

function time(event: RunEvent): number {
  return Date.parse(event.timestamp);
}

export class RunModel {
  constructor(readonly composites: ReadonlySet<string> = new Set()) {}

  seq = 0;
  status: RunStatus = "running";
  workflow = "";
  input = "";
  output = "";
  error = "";
  started = 0;
  /** When the newest event came. */
  latest = 0;
  readonly nodes = new Map<string, NodeState>();
  readonly executions = new Map<string, Execution>();
  readonly rounds = new Map<string, Round>();
  readonly loops = new Map<string, LoopEntry>();
  /** The stems of loops in the order in which they were entered. */
  order: readonly string[] = [];
  /** The addresses of executions in the order in which they began. */
  sequence: string[] = [];
  idle: readonly Interval[] = [];
  locks: readonly Lock[] = [];
  questions: readonly Question[] = [];
  warnings: readonly (Full<ViewedWarning, "address" | "text"> & Times<"at">)[] = [];
  edits: readonly (Full<ViewedEdit, "address" | "text"> & Times<"at">)[] = [];
  usage: RunUsage = { ...NO_USAGE, cost_usd: null };
  /** Why it is paused. */
  pause: { reason: string; address: string; breakpoint: string } | null = null;
  /** The addresses of executions that run now. */
  active: ReadonlySet<string> = new Set();

  /** Applies events in order. Those that are known are passed over; false if some are missing in between. */
  apply(events: readonly RunEvent[]): boolean {
    this.#fresh.clear();
    for (const event of events) {
      if (event.seq === undefined) {
        this.#transient(event);
        continue;
      }
      if (event.seq <= this.seq) continue;
      if (event.seq !== this.seq + 1) return false;
      this.seq = event.seq;
      this.latest = time(event);
      this.#stored(event);
    }
    return true;
  }

  #stored(event: RunEvent): void {
    switch (event.event) {
      case "run_started":
        this.started = time(event);
        this.workflow = event.data.workflow;
        this.input = event.data.input;
        break;
      case "loop_round":
        this.#beginRound(event);
        break;
      case "round_finished":
        this.#endRound(event);
        break;
      case "loop_exit":
        this.#leaveLoop(event);
        break;
      case "node_state_change":
        this.#changeNode(event);
        break;
      case "model_call":
        if (event.data.status !== "running") this.#endModelCall(event, event.data);
        this.#touch(event, this.#execution(event));
        break;
      case "aside_usage":
        this.#countAside(event, event.data);
        break;
      case "tool_call":
        this.#changeTool(event);
        break;
      case "human_input_required":
        this.#ask(event);
        break;
      case "human_input_received":
      case "human_input_timeout":
        this.#answered(event);
        break;
      case "breaker_tripped":
      case "limit_reached":
        this.#lockedBy(event);
        break;
      case "breaker_unlocked":
        this.#unlocked(event);
        break;
      case "run_state_change":
        this.error = "";
        this.usage = event.data.total ?? this.usage;
        this.#changeStatus(event, event.data);
        break;
      case "message_edited":
        this.edits = [...this.edits, { at: time(event), address: event.address ?? "", text: event.data.text }];
        break;
      case "warning":
        this.#warn(event, event.data.message);
        break;
      case "memory_error":
        this.#warn(event, event.data.error);
        break;
      case "run_finished":
        this.output = event.data.output;
        this.error = event.data.error ?? "";
        this.usage = event.data.usage;
        this.#changeStatus(event, { status: event.data.status, reason: event.data.reason });
        break;
    }
  }

  // Rounds.

  /** The round with an address, and those around it, from the inside out. */
  *#around(address: string): Generator<Round> {
    for (let round = this.rounds.get(address); round; round = this.rounds.get(round.parent)) yield round;
  }

  /** Open rounds around an execution last at least until now. */
  #touch(event: RunEvent, execution: Pick<Execution, "round">): void {
    for (const round of this.#around(execution.round)) if (round.isOpen) this.#putRound({ ...round, ended: time(event) });
  }

  /** The innermost round at the end of a path. Events of earlier versions have none, but an address. */
  #innermost(path: readonly PathStep[] | undefined, address: string): string {
    if (path === undefined) return parseAddress(address).rounds.findLast((step) => this.rounds.has(step.address))?.address ?? "";
    for (let end = path.length; end > 0; end--) {
      const found = path[end - 1]?.round ? roundAddress(path.slice(0, end)) : "";
      if (this.rounds.has(found)) return found;
    }
    return "";
  }

  /** The loops whose arrays of rounds this call of `apply` has copied, and may change in place. */
  #fresh = new Map<string, Round[]>();

  #putRound(round: Round): void {
    this.rounds.set(round.address, round);
    const entry = this.loops.get(round.stem);
    if (entry === undefined) return;
    let rounds = this.#fresh.get(round.stem);
    if (rounds === undefined) {
      rounds = entry.rounds.slice();
      this.#fresh.set(round.stem, rounds);
      this.loops.set(round.stem, { ...entry, rounds });
    }
    const usual = round.number - 1;
    const at =
      rounds[usual]?.address === round.address
        ? usual
        : rounds.findIndex((one) => one.address === round.address);
    if (at < 0) rounds.push(round);
    else rounds[at] = round;
  }

  #beginRound(event: EventOf<"loop_round">): void {
    const { address = "", data } = event;
    const stem = loopOf(address);
    const entry = this.loops.get(stem) ?? this.#enterLoop(stem, event);
    if (entry.exit !== null) this.loops.set(stem, { ...entry, exit: null });
    this.#putRound({
      address,
      stem,
      loop: data.loop,
      number: data.round,
      parent: entry.parent,
      started: time(event),
      ended: time(event),
      isOpen: true,
      status: "running",
      cut_off: false,
      lane: data.lane ?? 0,
      element: data.element ?? "",
      elements: data.elements ?? 0,
      triggered_by: data.triggered_by ?? [],
      score: null,
      usage: NO_USAGE,
      priced: false,
      executions: [],
      inner: [],
      failures: 0,
      failed: [],
    });
    this.#touch(event, { round: entry.parent });
  }

  #enterLoop(stem: string, { path, data }: EventOf<"loop_round">): LoopEntry {
    const parent = this.#innermost(path?.slice(0, -1), stem);
    const is_node = path?.at(-1)?.node !== undefined;
    const around = this.rounds.get(parent);
    const depth = around === undefined ? 0 : (this.loops.get(around.stem)?.depth ?? 0) + 1;
    const entry: LoopEntry = { stem, loop: data.loop, parent, depth, is_node, rounds: [], best: 0, exit: null };
    this.loops.set(stem, entry);
    this.order = [...this.order, stem];
    if (around !== undefined) this.#putRound({ ...around, inner: [...around.inner, stem] });
    return entry;
  }

  #endRound(event: EventOf<"round_finished">): void {
    const round = this.rounds.get(event.address ?? "");
    if (round === undefined) return;
    const { status, score = null, usage = NO_USAGE, best, failures = 0 } = event.data;
    const ended = time(event);
    this.#putRound({ ...round, ended, isOpen: false, cut_off: false, status, score, usage, failures });
    this.#touch(event, { round: round.parent });
    const entry = this.loops.get(round.stem);
    if (entry !== undefined && best != null) this.loops.set(entry.stem, { ...entry, best });
    // A node around a `break` or `continue` has no end of its own.
    for (const address of this.active) {
      const execution = this.executions.get(address);
      if (execution?.round !== round.address) continue;
      this.#endNode(event, execution, { status: "skipped", reason: "the round was ended" });
    }
  }

  #leaveLoop(event: EventOf<"loop_exit">): void {
    const entry = this.loops.get(this.rounds.get(event.address ?? "")?.stem ?? "");
    if (entry === undefined) return; // it had no rounds
    const { reason, by = "", rounds, kept = 0, best = 0 } = event.data;
    this.loops.set(entry.stem, { ...entry, exit: { reason, by, rounds, at: time(event), kept }, best });
  }

  // Nodes and executions.

  #execution(event: RunEvent, address = event.address ?? ""): Execution {
    const known = this.executions.get(address);
    if (known !== undefined) return known;
    const { path, node_id = "" } = event;
    const made: Execution = {
      address,
      node_id,
      key: path === undefined ? nodeKey(address, this.composites) : pathKey(path, node_id),
      path,
      round: this.#innermost(path, address),
      status: "running",
      started: time(event),
      ended: null,
      usage: NO_USAGE,
      models: [],
      tools: [],
      streamed: "",
      attempt: 0,
      handled: false,
      progress: null,
      question: null,
      warnings: [],
      starts: 0,
    };
    this.executions.set(address, made);
    this.sequence.push(address);
    const round = this.rounds.get(made.round);
    if (round !== undefined) this.#putRound({ ...round, executions: [...round.executions, address] });
    return made;
  }

  #put(execution: Execution): void {
    this.executions.set(execution.address, execution);
    const isActive = execution.status === "running" || execution.status === "waiting";
    if (isActive !== this.active.has(execution.address)) {
      const active = new Set(this.active);
      if (isActive) active.add(execution.address);
      else active.delete(execution.address);
      this.active = active;
    }
    const node = this.nodes.get(execution.key);
    this.nodes.set(execution.key, {
      key: execution.key,
      status: execution.status,
      runs: (node?.runs ?? 0) + (execution.status === "running" && node?.address !== execution.address ? 1 : 0),
      address: execution.address,
    });
  }

  #changeNode(event: EventOf<"node_state_change">): void {
    const before = this.#execution(event);
    const { data } = event;
    switch (data.status) {
      case "running": {
        const fresh = { ended: null, handled: false, error: undefined, error_type: undefined, attempts: undefined, reason: undefined };
        this.#put({ ...before, ...fresh, status: "running", streamed: "", attempt: 0, starts: before.starts + 1 });
        this.#touch(event, before);
        break;
      }
      case "completed": {
        const { status, output, data: fields, report, score, usage = before.usage } = data;
        this.#endNode(event, before, { status, output, data: fields, report, usage });
        if (score !== undefined) this.#setOpen(before, () => ({ score }));
        break;
      }
      case "failed": {
        const { status, error, type, handled = false, attempts, reason } = data;
        this.#endNode(event, before, { status, error, error_type: type, handled, attempts, reason });
        if (!handled) this.#setOpen(before, ({ failures }) => ({ failures: failures + 1 }));
        break;
      }
      case "skipped":
        this.#endNode(event, before, { status: data.status, reason: data.reason });
    }
  }

  #endNode(event: RunEvent, before: Execution, changes: Partial<Execution>): void {
    const ended = { ...before, ended: time(event), streamed: "", attempt: 0, progress: null, question: null, ...changes };
    this.#put(ended);
    this.questions = this.questions.filter((one) => one.caller !== before.address);
    const hasFailed = ended.status === "failed" && !ended.handled;
    for (const round of this.#around(before.round)) {
      if (round.failed.includes(before.address) === hasFailed) continue;
      const others = round.failed.filter((one) => one !== before.address);
      this.#putRound({ ...round, failed: hasFailed ? [...others, before.address] : others });
    }
    this.#touch(event, before);
  }

  /** Changes the open rounds around an execution. */
  #setOpen(execution: Execution, change: (round: Round) => Partial<Round>): void {
    for (const round of this.#around(execution.round)) if (round.isOpen) this.#putRound({ ...round, ...change(round) });
  }

  #endModelCall(event: EventOf<"model_call">, data: ModelCallEnded): void {
    const before = this.#execution(event);
    const { status, cached, input_tokens, output_tokens, cost_usd, model, total } = data;
    const model_calls = (status === "completed" || status === "failed") && !cached ? 1 : 0;
    const used = {
      model_calls,
      input_tokens,
      output_tokens,
      cost_usd,
      unpriced_calls: status === "completed" && cost_usd === undefined ? model_calls : 0,
      cached_calls: cached ? 1 : 0,
      cancelled_calls: status === "cancelled" ? 1 : 0,
    };
    this.#count(before, used, total, model);
  }

  #countAside(event: RunEvent, { input_tokens, cost_usd, total, model }: AsideUsage): void {
    this.#count(this.#execution(event), { input_tokens, cost_usd, unpriced_calls: cost_usd === undefined ? 1 : 0 }, total, model);
  }

  /** Counts a call for its execution and the open rounds around it, until they say themselves what they have
   * used; of an earlier version also for the run. */
  #count(before: Execution, used: Partial<RunUsage>, total: RunUsage | undefined, model = ""): void {
    const models = model && !before.models.includes(model) ? [...before.models, model] : before.models;
    this.executions.set(before.address, { ...before, usage: sum(before.usage, used), models });
    this.usage = total ?? sum(this.usage, used);
    const isPriced = used.cost_usd !== undefined;
    this.#setOpen(before, (round) => ({ usage: sum(round.usage, used), priced: round.priced || isPriced }));
  }

  #changeTool(event: EventOf<"tool_call">): void {
    const { address = "", data } = event;
    const caller = this.#execution(event, data.caller);
    const { name, arguments: given, status, round } = data;
    const before = caller.tools.find((tool) => tool.address === address);
    const isOver = "result" in data;
    const tool: ToolCall = {
      address,
      name,
      arguments: given,
      status,
      round,
      result: isOver ? data.result : undefined,
      started: before?.started ?? time(event),
      ended: isOver ? time(event) : null,
    };
    const tools = before ? caller.tools.map((one) => (one === before ? tool : one)) : [...caller.tools, tool];
    const after = { ...caller, tools };
    if (isOver) this.#count(after, { tool_calls: data.called ? 1 : 0 }, data.total);
    else this.executions.set(after.address, after);
    this.#touch(event, caller);
  }

  // People.

  #ask(event: EventOf<"human_input_required">): void {
    const { address = "", node_id = "" } = event;
    const { prompt, tool = null, deadline = null, caller = address } = event.data;
    const question: Question = { address, node_id, prompt, tool, deadline, asked: time(event), caller };
    this.questions = [...this.questions.filter((one) => one.address !== address), question];
    const execution = this.#execution(event, caller);
    this.#put({ ...execution, status: "waiting", question });
    this.#touch(event, execution);
  }

  #answered(event: EventOf<"human_input_received" | "human_input_timeout">): void {
    const asked = this.questions.find((one) => one.address === event.address);
    this.questions = this.questions.filter((one) => one !== asked);
    const execution = this.#execution(event, asked?.caller);
    const question = this.questions.findLast((one) => one.caller === execution.address) ?? null;
    const answer = event.event === "human_input_received" ? event.data.text : execution.answer;
    this.#put({ ...execution, status: question === null ? "running" : "waiting", question, answer });
    this.#touch(event, execution);
  }

  // The run.

  #lockedBy(event: EventOf<"breaker_tripped" | "limit_reached">): void {
    // Some limits let the run go on.
    if (event.event === "limit_reached" && event.data.locks !== true) return;
    const lock: Lock = {
      seq: event.seq ?? 0,
      at: time(event),
      address: event.data.address ?? event.address ?? "",
      what: event.event === "limit_reached" ? event.data.what : event.data.trigger,
      data: { ...event.data },
      unlocked: null,
    };
    this.locks = [...this.locks, lock];
  }

  #unlocked(event: EventOf<"breaker_unlocked">): void {
    const { by, reason } = event.data;
    const unlocked = { at: time(event), by, reason, data: { ...event.data } };
    this.locks = this.locks.map((lock, at) => (at === this.locks.length - 1 ? { ...lock, unlocked } : lock));
  }

  #changeStatus(event: RunEvent, data: Status): void {
    const { status, reason = "", address = "", breakpoint = "" } = data;
    this.status = status;
    const at = time(event);
    const last = this.idle.at(-1);
    if (last !== undefined && last.to === null) this.idle = [...this.idle.slice(0, -1), { ...last, to: at }];
    this.pause = status === "paused" ? { reason, address, breakpoint } : null;
    if (status === "running") {
      this.#setRounds((round) => round.cut_off, () => ({ isOpen: true, status: "running", cut_off: false }));
      return;
    }
    this.idle = [
      ...this.idle,
      {
        status: isOver(status) ? "over" : status,
        from: at,
        to: null,
        address: address || (data.questions?.[0] ?? ""),
        reason,
      },
    ];
    if (isOver(status)) this.#cutOff(status);
  }

  /** Ends the rounds that the end of the run leaves open; a retry continues them. */
  #cutOff(status: RoundStatus): void {
    this.questions = [];
    const failed = new Set<string>();
    for (const one of this.executions.values()) {
      // What failed in a node around it, too, is that node's.
      const isDirect = !one.path?.length || roundAddress(one.path) === one.round;
      if (one.status !== "failed" || one.handled || !isDirect) continue;
      for (const round of this.#around(one.round)) {
        failed.add(round.address);
        if (this.loops.get(round.stem)?.is_node) break;
      }
    }
    this.#setRounds(
      (round) => round.isOpen,
      (round) => ({
        isOpen: false,
        // Earlier versions do not say which rounds have ended before.
        status: failed.has(round.address) ? "failed" : status === "completed" ? "completed" : "stopped",
        cut_off: true,
      }),
    );
  }

  #setRounds(which: (round: Round) => boolean, change: (round: Round) => Partial<Round>): void {
    for (const entry of [...this.loops.values()]) {
      for (const round of entry.rounds) if (which(round)) this.#putRound({ ...round, ...change(round) });
    }
  }

  #warn(event: RunEvent, text: string): void {
    const address = event.address ?? "";
    this.warnings = [...this.warnings, { at: time(event), address, text }];
    const execution = this.executions.get(address);
    if (execution !== undefined) {
      this.executions.set(address, { ...execution, warnings: [...execution.warnings, text] });
    }
  }

  #transient(event: RunEvent): void {
    const execution = this.executions.get(event.address ?? "");
    if (execution === undefined || execution.ended !== null) return;
    if (event.event === "progress") {
      const { text, fraction } = event.data;
      this.executions.set(execution.address, { ...execution, progress: { text, fraction: fraction ?? null } });
    }
    if (event.event !== "token_stream") return;
    const { text, attempt: number, offset: start } = event.data;
    if (number < execution.attempt) return;
    const before = number > execution.attempt ? "" : execution.streamed;
    // A page that came later knows only the rest; one that missed a part shows what it has.
    const streamed = before.slice(0, start) + text;
    this.executions.set(execution.address, { ...execution, streamed, attempt: number });
  }
}

/** Both together, by the rule of the kernel for a cost that is not known. */
function sum(one: RunUsage, other: Partial<RunUsage>): RunUsage {
  const found = { ...one };
  for (const key of Object.keys(other) as (keyof RunUsage)[]) found[key] = (one[key] ?? 0) + (other[key] ?? 0);
  const cost = Math.round(((one.cost_usd ?? 0) + (other.cost_usd ?? 0)) * 1e12) / 1e12;
  const isUnknown = found.unpriced_calls > 0 && found.unpriced_calls >= found.model_calls && !cost;
  found.cost_usd = isUnknown ? null : cost;
  return found;
}
