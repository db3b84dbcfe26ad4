// A run as its events tell it: nodes, rounds, executions, and when it worked and when it waited.
//
// `RunModel.apply` takes events in order. The maps stay the same, and an entry is replaced when it changes,
// so a component that selects one entry is drawn again only for changes of it.
import { isOver, type NodeStatus, type RoundStatus, type RunStatus, type ToolStatus } from "../api/statuses";
import { parseAddress, roundOf } from "./address";
import type { ModelCallEnded, RunUsage } from "../api/events";
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

export interface ToolCall {
  address: string;
  name: string;
  arguments: unknown;
  status: ToolStatus;
  round: number;
  result?: unknown;
  started: number;
  ended: number | null;
}

export interface Question {
  address: string;
  prompt: string;
  tool: { name: string; arguments: unknown } | null;
  deadline: string | null;
  asked: number;
  /** The address of the execution that waits: that of the agent, for a tool. */
  caller: string;
}

/** One execution of a node. */
export interface Execution {
  address: string;
  nodeId: string;
  key: string;
  /** The address of the innermost round around it; empty outside of loops. */
  round: string;
  status: ShownNodeStatus;
  started: number;
  ended: number | null;
  /** Undefined if it returned nothing. */
  output?: string;
  data?: Record<string, unknown>;
  /** What it reports, counts of guards or decisions of loops; of a handled failure what else is known. */
  details: Record<string, unknown>;
  error?: string;
  errorType?: string;
  handled?: boolean;
  reason?: string;
  inputTokens: number;
  outputTokens: number;
  cost: number | null;
  models: readonly string[];
  tools: readonly ToolCall[];
  /** What a model has written so far, while it streams. */
  streamed: string;
  attempt: number;
  progress: { text: string; fraction: number | null } | null;
  question: Question | null;
  answer?: string;
  warnings: readonly string[];
  /** How often it has started: more than once if the run was retried. */
  starts: number;
}

export interface Round {
  address: string;
  stem: string;
  loop: string;
  number: number;
  started: number;
  /** When it ended; for one that is open, when its last event came. */
  ended: number;
  isOpen: boolean;
  status: RoundStatus;
  /** Whether the end of the run ended it. */
  cutOff?: boolean;
  /** Its place beside other rounds of its loop that run at the same time, from 0. */
  lane: number;
  /** Of a round over an element of a list: the beginning of the element, and how many there are; otherwise "" and 0. */
  element: string;
  elements: number;
  /** The nodes whose edges began it. */
  triggeredBy: readonly string[];
  /** The last score that a node returned. */
  score: number | null;
  tokens: number;
  cost: number | null;
  /** Executions whose innermost round this is, by address. */
  executions: readonly string[];
  /** Loops that were entered in this round, by stem. */
  inner: readonly string[];
  /** Executions that failed and were not handled by an edge. */
  failures: readonly string[];
}

/** One entry of a loop, with its rounds. */
export interface LoopEntry {
  stem: string;
  loop: string;
  /** The address of the round around it; empty at the top. */
  parent: string;
  depth: number;
  rounds: readonly Round[];
  /** The number of the round with the highest score, of those that have ended; 0 if none has one. */
  best: number;
  /** `kept` is the number of the round whose output was kept, if a node says so; otherwise 0. */
  exit: { reason: string; by: string; rounds: number; at: number; kept: number } | null;
}

/** A time in which the run did not work. */
export interface Interval {
  status: "waiting" | "paused" | "suspended_locked" | "over";
  from: number;
  to: number | null;
  address: string;
  reason: string;
}

export interface Lock {
  seq: number;
  at: number;
  address: string;
  /** `crashes`, `dead_loop`, `token_surge`, `timeout`, `manual`, or the limit that was met. */
  what: string;
  data: Record<string, unknown>;
  unlocked: { at: number; by: string; reason: string; data: Record<string, unknown> } | null;
}

export interface Usage {
  modelCalls: number;
  toolCalls: number;
  inputTokens: number;
  outputTokens: number;
  cost: number | null;
}

/** The key of a node in a drawing: its id, after those of the nodes that contain it. `composites` are the keys
 * of nodes that repeat what is inside them: `Each[2]/Say` is the node Say in the loop agent Each, and
 * `Writer[2]/Say` is Say in a loop, which is no node. */
export function nodeKey(address: string, composites: ReadonlySet<string>): string {
  const segments = address.split(/\/|(?<=\])\./);
  const last = segments.pop() ?? "";
  let prefix = "";
  segments.forEach((segment, at) => {
    const name = bare(segment);
    // A loop agent may be the entry of a loop, too: `Each[1]/Each` is its execution in round 1 of that loop.
    const isLoop = name !== segment && (!composites.has(prefix + name) || bare(segments[at + 1] ?? last) === name);
    if (!isLoop) prefix += `${name}/`;
  });
  return prefix + bare(last);
}

/** A segment of an address without the number of its round or part. */
function bare(segment: string): string {
  return segment.replace(/(\[\d+\]|#[\d.]+)$/, "");
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
  warnings: readonly { at: number; address: string; text: string }[] = [];
  edits: readonly { at: number; address: string; text: string }[] = [];
  usage: Usage = { modelCalls: 0, toolCalls: 0, inputTokens: 0, outputTokens: 0, cost: null };
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
    this.#touchRounds(event);
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
        break;
      case "aside_usage":
        this.#countTokens(event, event.data.input_tokens, 0, event.data.cost_usd ?? null, event.data.model);
        this.#takeTotal(event.data.total);
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
        this.#takeTotal(event.data.usage);
        this.#changeStatus(event, { status: event.data.status, reason: event.data.reason });
        break;
    }
  }

  // Rounds.

  #touchRounds(event: RunEvent): void {
    if (!event.address) return;
    for (const step of parseAddress(event.address).rounds) {
      const round = this.rounds.get(step.address);
      if (round?.isOpen) this.#putRound({ ...round, ended: time(event) });
    }
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
    const address = event.address ?? "";
    const steps = parseAddress(address).rounds;
    const step = steps.at(-1);
    if (step === undefined || this.rounds.has(address)) return;
    const parent = steps.at(-2)?.address ?? "";
    if (!this.loops.has(step.stem)) {
      const loop = event.data.loop;
      this.loops.set(step.stem, {
        stem: step.stem,
        loop,
        parent,
        depth: steps.length - 1,
        rounds: [],
        best: 0,
        exit: null,
      });
      this.order = [...this.order, step.stem];
      const around = this.rounds.get(parent);
      if (around !== undefined) this.#putRound({ ...around, inner: [...around.inner, step.stem] });
    }
    this.#putRound({
      address,
      stem: step.stem,
      loop: step.loop,
      number: step.round,
      started: time(event),
      ended: time(event),
      isOpen: true,
      status: "running",
      lane: event.data.lane ?? 0,
      element: event.data.element ?? "",
      elements: event.data.elements ?? 0,
      triggeredBy: event.data.triggered_by ?? [],
      score: null,
      tokens: 0,
      cost: null,
      executions: [],
      inner: [],
      failures: [],
    });
  }

  #endRound(event: EventOf<"round_finished">): void {
    const round = this.rounds.get(event.address ?? "");
    if (round === undefined) return;
    const { status, score, usage, best } = event.data;
    const tokens = usage === undefined ? 0 : usage.input_tokens + usage.output_tokens;
    const cost = usage?.cost_usd ?? null;
    this.#putRound({
      ...round,
      ended: time(event),
      isOpen: false,
      status,
      score: score ?? null,
      tokens,
      // Without a call that cost something nothing is known of prices.
      cost: round.cost === null ? null : cost,
    });
    const entry = this.loops.get(round.stem);
    if (entry !== undefined && best != null) this.loops.set(entry.stem, { ...entry, best });
  }

  #leaveLoop(event: EventOf<"loop_exit">): void {
    const entry = this.loops.get(this.rounds.get(event.address ?? "")?.stem ?? "");
    if (entry === undefined) return; // it had no rounds
    const { reason, by, rounds, kept } = event.data;
    const exit = { reason, by: by ?? "", rounds, at: time(event), kept: kept ?? 0 };
    this.loops.set(entry.stem, { ...entry, exit });
  }

  // Nodes and executions.

  #execution(event: RunEvent): Execution {
    const address = event.address ?? event.node_id ?? "";
    const known = this.executions.get(address);
    if (known !== undefined) return known;
    const made: Execution = {
      address,
      nodeId: event.node_id ?? "",
      key: nodeKey(address, this.composites),
      round: roundOf(address),
      status: "running",
      started: time(event),
      ended: null,
      details: {},
      inputTokens: 0,
      outputTokens: 0,
      cost: null,
      models: [],
      tools: [],
      streamed: "",
      attempt: 1,
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
    const data = event.data;
    if (data.status === "running") {
      const again = before.starts > 0;
      const fresh = again ? { streamed: "", question: null, error: undefined, errorType: undefined } : {};
      this.#put({ ...before, ...fresh, status: data.status, ended: null, starts: before.starts + 1 });
      return;
    }
    const done = data.status === "completed" ? data : null;
    const failed = data.status === "failed" ? data : null;
    this.#put({
      ...before,
      status: data.status,
      ended: time(event),
      output: done?.output ?? before.output,
      data: done?.data ?? before.data,
      details: done?.report ?? (failed?.attempts === undefined ? {} : { attempts: failed.attempts }),
      error: failed?.error,
      errorType: failed?.type,
      handled: failed?.handled === true,
      reason: data.status === "completed" ? undefined : data.reason,
      streamed: "",
      progress: null,
      question: null,
    });
    this.questions = this.questions.filter((one) => one.address !== before.address);
    for (const step of parseAddress(before.address).rounds) {
      const round = this.rounds.get(step.address);
      if (round === undefined) continue;
      const score = done?.score ?? round.score;
      const failures = failed && !failed.handled
        ? [...new Set([...round.failures, before.address])]
        : round.failures.filter((one) => one !== before.address);
      this.#putRound({ ...round, score, failures });
    }
  }

  #endModelCall(event: EventOf<"model_call">, data: ModelCallEnded): void {
    const { input_tokens: input = 0, output_tokens: output = 0, cost_usd: cost = null, model = "" } = data;
    if (data.status === "completed") this.#countTokens(event, input, output, cost, model);
    this.#takeTotal(data.total);
  }

  /** What the run has used so far, as an event says it. */
  #takeTotal(total: RunUsage | undefined): void {
    if (total === undefined) return;
    this.usage = {
      modelCalls: total.model_calls,
      toolCalls: total.tool_calls,
      inputTokens: total.input_tokens,
      outputTokens: total.output_tokens,
      cost: total.cost_usd,
    };
  }

  /** Adds the tokens of a call to its execution and to the rounds around it. */
  #countTokens(event: RunEvent, input: number, output: number, cost: number | null, name: string): void {
    const before = this.#execution(event);
    this.executions.set(before.address, {
      ...before,
      inputTokens: before.inputTokens + input,
      outputTokens: before.outputTokens + output,
      cost: add(before.cost, cost),
      models: name && !before.models.includes(name) ? [...before.models, name] : before.models,
    });
    for (const step of parseAddress(before.address).rounds) {
      const round = this.rounds.get(step.address);
      if (round === undefined) continue;
      this.#putRound({ ...round, tokens: round.tokens + input + output, cost: add(round.cost, cost) });
    }
  }

  #changeTool(event: EventOf<"tool_call">): void {
    const caller = this.executions.get(event.data.caller ?? "");
    if (caller === undefined) return;
    const address = event.address ?? "";
    const { name, arguments: given, status, round } = event.data;
    const result = "result" in event.data ? event.data.result : undefined;
    const before = caller.tools.find((tool) => tool.address === address);
    const over = status !== "running" && status !== "waiting";
    const tool: ToolCall = {
      address,
      name,
      arguments: given,
      status,
      round,
      result: result ?? before?.result,
      started: before?.started ?? time(event),
      ended: over ? time(event) : null,
    };
    const tools = before
      ? caller.tools.map((one) => (one.address === address ? tool : one))
      : [...caller.tools, tool];
    if ("result" in event.data) this.#takeTotal(event.data.total);
    this.executions.set(caller.address, { ...caller, tools });
  }

  // People.

  #ask(event: EventOf<"human_input_required">): void {
    const { prompt, tool, deadline } = event.data;
    const question: Question = {
      address: event.address ?? "",
      prompt,
      tool: tool ?? null,
      deadline: deadline ?? null,
      asked: time(event),
      caller: event.data.caller ?? event.address ?? "",
    };
    this.questions = [...this.questions.filter((one) => one.address !== question.address), question];
    const execution = tool ? this.executions.get(question.caller) : this.#execution(event);
    if (execution !== undefined) this.#put({ ...execution, status: "waiting", question });
  }

  #answered(event: EventOf<"human_input_received" | "human_input_timeout">): void {
    const asked = this.questions.find((one) => one.address === event.address);
    this.questions = this.questions.filter((one) => one !== asked);
    const execution = this.executions.get(asked?.caller ?? event.address ?? "");
    if (execution === undefined) return;
    const answer = event.event === "human_input_received" ? event.data.text : undefined;
    this.#put({ ...execution, status: "running", question: null, answer: answer ?? execution.answer });
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
      this.#setRounds((round) => round.cutOff === true, () => ({ isOpen: true, status: "running", cutOff: false }));
      return;
    }
    const over = isOver(status);
    this.idle = [
      ...this.idle,
      {
        status: over ? "over" : status,
        from: at,
        to: null,
        address: address || (data.questions?.[0] ?? ""),
        reason,
      },
    ];
    if (!over) return;
    this.questions = [];
    // The end of the run cuts off what is open; a retry continues it. Runs that were pruned by an earlier version
    // do not say which rounds have ended before.
    this.#setRounds(
      (round) => round.isOpen,
      (round) => ({ isOpen: false, status: round.failures.length ? "failed" : "stopped", cutOff: true }),
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

function add(sum: number | null, value: number | null): number | null {
  return value === null ? sum : (sum ?? 0) + value;
}
