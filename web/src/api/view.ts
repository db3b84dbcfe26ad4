// Written by tools/web_types.py from runs/view.py. `make tables` writes it again.
import type {
  Attempt,
  CallWaiting,
  Change,
  PathStep,
  ProgressReported,
  QueuedInput,
  RunProgress,
  RunUsage,
  ToolToApprove,
} from "./events";

/** A time in which the run did not work. */
export interface IdleTime {
  /** What it did instead. */
  status: "completed" | "failed" | "paused" | "stopped" | "suspended_locked" | "waiting";
  /** When it began. */
  began: string;
  /** When it ended; empty while it lasts. */
  ended?: string;
  /** Why, as one word. */
  cause?: "" | "answer" | "breaker" | "breakpoint" | "crashes" | "limit" | "pause" | "question" | "resume" | "retry" | "revised" | "step" | "timeout" | "unlock";
  /** Why, as text. */
  reason?: string;
  /** For a pause during debugging: the node that was ready. */
  address?: string;
  /** For a pause by a breakpoint: the breakpoint. */
  breakpoint?: string;
  /** While it waited: the addresses of the questions. */
  questions?: string[];
}

/** What people see of a run at one moment. `RunFold.snapshot` creates it. */
export interface ViewSnapshot {
  /** The number of the last event that it contains. */
  seq: number;
  /** The status of the run. */
  status?: "completed" | "failed" | "paused" | "running" | "stopped" | "suspended_locked" | "waiting";
  /** The reason of the status, as text. */
  reason?: string;
  /** What changed the status, as one word. */
  cause?: "" | "answer" | "breaker" | "breakpoint" | "crashes" | "limit" | "pause" | "question" | "resume" | "retry" | "revised" | "step" | "timeout" | "unlock";
  /** The person who caused it. */
  by?: string;
  /** Whether events are missing in between, since the run was pruned. */
  is_pruned?: boolean;
  /** When the run began. */
  started?: string;
  /** When it ended. */
  ended?: string;
  /** How long it had worked when its status last changed; null if that is not known. */
  work_seconds?: number;
  /** The id of its graph. */
  workflow?: string;
  /** The model of agents that name none, if one was chosen for the run. */
  model?: string;
  /** The text of its input. */
  input?: string;
  /** The text of its result. */
  output?: string;
  /** The structured fields of its result. */
  data?: Record<string, unknown>;
  /** Its error. */
  error?: string;
  /** The address of the node whose failure ended it. */
  failed_at?: string;
  /** What it has used. */
  usage?: RunUsage;
  /** The entries of loops, in the order in which they began. */
  loops?: ViewedLoop[];
  /** The executions of nodes, by address. */
  executions?: Record<string, ViewedExecution>;
  /** Their addresses, in the order in which they began. */
  order?: string[];
  /** The addresses of those that run or wait now. */
  active?: string[];
  /** The open questions. */
  questions?: ViewedQuestion[];
  /** The answers to earlier ones. */
  answers?: ViewedAnswer[];
  /** What locked the run. */
  locks?: ViewedLock[];
  /** When it did not work. */
  idle?: IdleTime[];
  /** What people changed. */
  edits?: ViewedEdit[];
  /** What is probably not as intended. */
  warnings?: ViewedWarning[];
  /** How far it is, and which limits are nearest, as the process that executes it told last; null if it did not. */
  progress?: RunProgress;
}

/** A question that was answered, or was not in time. */
export interface ViewedAnswer {
  /** The address of the question. */
  address: string;
  /** The node that asked. */
  node_id: string;
  /** When it was answered, or expired. */
  answered: string;
  /** The answer. */
  text?: string;
  /** The structured fields of the answer. */
  data?: Record<string, unknown>;
  /** Who answered. */
  by?: string;
  /** Whether a person or the script answered. */
  via?: "person" | "script";
  /** What was decided; null if nobody answered in time. */
  decision?: "answered" | "approved" | "changed" | "rejected";
  /** How the arguments of a tool call were changed. */
  changes?: Change[];
  /** Why a tool call was rejected. */
  reason?: string;
  /** How many seconds the answer took. */
  waited?: number;
  /** What happened instead, if nobody answered in time. */
  expired?: string;
}

/** A model call of an execution. */
export interface ViewedCall {
  /** Its number among the model calls of the execution, from 1; 0 in runs that an earlier version pruned. */
  call: number;
  /** What it is for. */
  purpose: "answer" | "final" | "reflection" | "repair" | "summary";
  /** What it does. */
  status: "cancelled" | "completed" | "failed" | "refused" | "running";
  /** When it began. */
  started: string;
  /** When it ended. */
  ended?: string;
  /** The number of earlier calls of this node in the run. */
  ordinal?: number;
  /** The model that answered, or that is asked, as `provider:name`. */
  model?: string;
  /** While it is in flight: the number of the attempt, from 1, if it is known. */
  attempt?: number;
  /** While it is in flight: how many attempts are made at most, if it is known. */
  of?: number;
  /** While it waits for its next attempt: why, and until when. */
  waits?: CallWaiting;
  /** The input tokens; null if they are not known. */
  input_tokens?: number;
  /** The output tokens; null if they are not known. */
  output_tokens?: number;
  /** What it cost; null if that is not known. */
  cost_usd?: number;
  /** Whether the answer came from the cache. */
  cached?: boolean;
  /** Whether a script answered. */
  scripted?: boolean;
  /** The time inside the provider; null if it is not known. */
  seconds?: number;
  /** The seconds of the last attempt until its first part, if the answer was streamed. */
  first_token?: number;
  /** Why the model stopped. */
  stop?: "" | "content_filter" | "length" | "stop" | "tool_calls";
  /** The attempts before the last one. */
  attempts?: Attempt[];
  /** The digest of what the model got. */
  context?: string;
  /** The error, if it failed. */
  error?: string;
  /** The type of the failure. */
  type?: string;
}

/** A message that a person changed. */
export interface ViewedEdit {
  /** When. */
  at: string;
  /** Its address. */
  address: string;
  /** The new text. */
  text: string;
  /** The beginning of the text before. */
  before?: string;
  /** The person. */
  by?: string;
  /** Whether it was changed in a fork, or in a queue. */
  cause?: "" | "edit" | "fork";
  /** Its number in the queue of the node. */
  position?: number;
}

/** One execution of a node. */
export interface ViewedExecution {
  /** Its address. */
  address: string;
  /** The node. */
  node_id: string;
  /** The node in a drawing: its id, after those of the nodes around it. */
  key: string;
  /** What it does. */
  status: "completed" | "failed" | "running" | "skipped" | "waiting";
  /** When it began. */
  started: string;
  /** When it ended. */
  ended?: string;
  /** The type of the node. */
  type?: string;
  /** Whether it calls a model. */
  speaks?: boolean;
  /** What is around the node, outermost first. */
  path?: PathStep[];
  /** `2` or `2.1`, for a part of a dynamic edge. */
  part?: string;
  /** The address of the innermost round around it; empty outside of loops. */
  round?: string;
  /** How often it has started: more than once if the run was retried, never if it was skipped. */
  starts?: number;
  /** The text of its last message; null if it returned none. */
  output?: string;
  /** The structured fields of that message. */
  data?: Record<string, unknown>;
  /** What the node says about this execution. */
  report?: Record<string, unknown>;
  /** How many messages it returned. */
  messages?: number;
  /** The score that it reports, or that is in its data. */
  score?: number;
  /** The port by which its messages left. */
  port?: string;
  /** The error, if it failed. */
  error?: string;
  /** The type of the failure. */
  error_type?: string;
  /** Whether an error edge handled the failure. */
  handled?: boolean;
  /** Whether the failure happened inside the node. */
  inside?: boolean;
  /** The address of the node that failed. */
  origin?: string;
  /** How many attempts failed. */
  attempts?: number;
  /** Why it was skipped, or why the same call must fail again. */
  reason?: string;
  /** Why it was skipped, as one word. */
  cause?: "" | "limit" | "loop_left" | "not_triggered" | "round_ended" | "run_failed" | "stopped";
  /** What it has used. */
  usage?: RunUsage;
  /** Its model calls. */
  calls?: ViewedCall[];
  /** Its tool calls. */
  tools?: ViewedTool[];
  /** The question that it waits for. */
  question?: ViewedQuestion;
  /** The last answer that it got. */
  answer?: string;
  /** What a model has written so far, while it streams. */
  streamed?: string;
  /** The attempt that the text belongs to. */
  attempt?: number;
  /** What it last reported about its progress, while it is in flight. */
  progress?: ProgressReported;
  /** While a call that is not of a model waits for its next attempt: why, and until when. */
  waits?: CallWaiting;
}

/** How a loop was left. */
export interface ViewedExit {
  /** Why. */
  reason: string;
  /** When. */
  ended: string;
  /** The number of its rounds. */
  rounds: number;
  /** The node whose edge left it. */
  by?: string;
  /** The round whose output was kept, if a node says so. */
  kept?: number;
  /** How long the loop took. */
  seconds?: number;
}

/** A limit or a trigger of the breaker that locked the run. */
export interface ViewedLock {
  /** The number of the event. */
  seq: number;
  /** When. */
  at: string;
  /** The limit, or the trigger. */
  what: string;
  /** The data of the event. */
  data: Record<string, unknown>;
  /** Where. */
  address?: string;
  /** The node. */
  node_id?: string;
  /** How the run was unlocked; null while it is locked. */
  unlocked?: ViewedUnlock;
}

/** One entry of a loop, a `loop_agent` or a `debate`. */
export interface ViewedLoop {
  /** Its address: that of its rounds, without their number. */
  address: string;
  /** The loop: the id of its entry. */
  loop: string;
  /** Which entry of the loop it is, from 1. */
  entry?: number;
  /** What is around the loop, outermost first. */
  path?: PathStep[];
  /** Whether it is a node that repeats by itself. */
  is_node?: boolean;
  /** The address of the round around it. */
  parent?: string;
  /** How many rounds are around it. */
  depth?: number;
  /** The most rounds that it can have. */
  limit?: number;
  /** The guard that the limit follows from. */
  limit_by?: string;
  /** The guards that end it after a time. */
  clocks?: string[];
  /** Its rounds, in the order in which they began. */
  rounds?: ViewedRound[];
  /** How it was left; null while it runs. */
  exit?: ViewedExit;
  /** The round with the highest score, of those that have ended. */
  best?: number;
  /** How many of its rounds ran at the same time, at most. */
  lanes?: number;
  /** What everything inside it has used. */
  usage?: RunUsage;
}

/** A question that is open. */
export interface ViewedQuestion {
  /** Its address. */
  address: string;
  /** The node that asks. */
  node_id: string;
  /** The address of the execution that waits: that of the agent, for a tool. */
  caller: string;
  /** The question. */
  prompt: string;
  /** When it was asked. */
  asked: string;
  /** The messages in the queue of the node. */
  input?: QueuedInput[];
  /** The tool call that needs approval. */
  tool?: ToolToApprove;
  /** The time by which it must be answered. */
  deadline?: string;
  /** The seconds until then. */
  timeout?: number;
}

/** A round of a loop. */
export interface ViewedRound {
  /** Its address, such as `Writer[3]`. */
  address: string;
  /** Its number, from 1. */
  number: number;
  /** What it does, or how it ended. */
  status: "cancelled" | "completed" | "failed" | "running" | "stopped";
  /** When it began. */
  started: string;
  /** When it ended; while it runs, when its last event came. */
  ended: string;
  /** The address of the round around it. */
  parent?: string;
  /** Its place beside other rounds of its loop, from 0. */
  lane?: number;
  /** How long it took; null until it has ended. */
  seconds?: number;
  /** How long it took, without the time in which the run did not work. */
  work_seconds?: number;
  /** The last score inside it. */
  score?: number;
  /** The round with the highest score by its end. */
  best?: number;
  /** What everything inside it has used. */
  usage?: RunUsage;
  /** Whether the cost of a call inside it is known. */
  priced?: boolean;
  /** How many times a node inside it failed. */
  failures?: number;
  /** The beginning of the element that it is about. */
  element?: string;
  /** How many elements there are. */
  elements?: number;
  /** The addresses of the nodes whose edges began it. */
  triggered_by?: string[];
  /** The addresses of the executions whose innermost round it is. */
  executions?: string[];
  /** The addresses of the loops that were entered in it. */
  inner?: string[];
  /** Whether the end of the run ended it. */
  cut_off?: boolean;
}

/** A tool call of an agent. */
export interface ViewedTool {
  /** Its address. */
  address: string;
  /** The tool. */
  name: string;
  /** The id that the model gave to the request. */
  id: string;
  /** The round of tools, from 1. */
  round: number;
  /** What it does. */
  status: "cancelled" | "completed" | "failed" | "refused" | "rejected" | "repeated" | "running" | "waiting";
  /** When it was requested. */
  started: string;
  /** When it ended. */
  ended?: string;
  /** The arguments; if a person changed them, the changed ones. */
  arguments?: unknown;
  /** The result that the model gets; null while there is none. */
  result?: string;
  /** Whether the tool was called. */
  called?: boolean;
  /** The time inside the tool; null if it is not known. */
  seconds?: number;
  /** How many seconds a person took to decide about it; null if nobody was asked. */
  waited?: number;
  /** What a person decided about it. */
  decision?: "answered" | "approved" | "changed" | "rejected";
  /** The attempts before the last one. */
  attempts?: Attempt[];
  /** While it waits for its next attempt: why, and until when. */
  waits?: CallWaiting;
  /** What it last reported about its progress, while it is in flight. */
  progress?: ProgressReported;
}

/** How a run was unlocked. */
export interface ViewedUnlock {
  /** When. */
  at: string;
  /** The person. */
  by: string;
  /** The reason that the person gave. */
  reason: string;
  /** What was changed. */
  changes?: Change[];
  /** The message for the next agent. */
  note?: string;
  /** The node for which the loop was left. */
  exit?: string;
}

/** Something that is probably not as intended. */
export interface ViewedWarning {
  /** When. */
  at: string;
  /** What it is about, as one word; also `memory`, and `no_end` for a graph whose end was not reached. */
  code: string;
  /** Where. */
  address?: string;
  /** The node. */
  node_id?: string;
  /** What it says. */
  text?: string;
  /** For `no_end`: the edges that did not fire. */
  edges?: string[];
}
