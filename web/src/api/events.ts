// Written by tools/web_types.py from kernel/payloads.py. `make tables` writes it again.

/** A person or the script answered. */
export interface AnswerReceived {
  /** the answer */
  text: string;
  /** the structured fields of the answer, if it has any */
  data?: Record<string, unknown>;
  /** who answered; omitted if that is not known, and for a script */
  by?: string;
  /** `script` if the script of the run answered; omitted for a person */
  via?: "person" | "script";
  /** what a person decided about a tool: `approved`, `changed` if the call is made with other arguments, or `rejected`. Omitted for a human node */
  decision?: "answered" | "approved" | "changed" | "rejected";
  /** for `changed`: the differences of the arguments, at most 50, each with a `path` (a JSON pointer) and the values `before` and `after`; a value that is not there is omitted */
  changes?: Change[];
  /** for `rejected`: the reason */
  reason?: string;
  /** how many seconds the answer took */
  waited?: number;
}

/** The deadline of a question passed without an answer. */
export interface AnswerTimeout {
  /** the time by which the person had to answer */
  deadline: string;
  /** the seconds that the person had */
  timeout: number;
  /** what happens instead of an answer: `default`, `port`, `failed`, or `rejected` for a tool call */
  action: "default" | "failed" | "port" | "rejected";
  /** how many seconds nobody answered */
  waited?: number;
}

/** A call beside those of the model: the computation of [vectors for a memory](memory.md#retrieval). */
export interface AsideUsage {
  /** `embedding` */
  purpose: "embedding";
  /** the model, as `provider:name` */
  model: string;
  /** the number of tokens */
  input_tokens: number;
  /** the cost in dollars. Omitted if no price is known */
  cost_usd?: number;
  /** what the run has used so far, with this call. Omitted as above */
  total?: RunUsage;
}

/** One attempt at a call that failed. */
export interface Attempt {
  /** The model, as `provider:name`; empty for other calls, and if only the node knows of the attempt. */
  model?: string;
  /** Its error, in one line. */
  error?: string;
  /** The HTTP status with which the provider refused; None if there is none. */
  status?: number;
  /** How many seconds the provider asked to wait; None if it did not. */
  retry_after?: number;
  /** The time inside the provider or the function. */
  seconds?: number;
  /** The wait before the next attempt. */
  waited?: number;
}

/** A person unlocked the run. */
export interface BreakerUnlocked {
  /** the reason that the person gave */
  reason: string;
  /** the person */
  by: string;
  /** `RESUMED` */
  state: string;
  /** the cause of the lock: a trigger of the breaker, or a limit */
  what: string;
  /** what was changed: raised limits as `/limits/tokens`, and the last message as `/message`, each with the values `before` and `after`; omitted if nothing was */
  changes?: Change[];
  /** the message for the next agent, if there is one */
  note?: string;
  /** the node for which the loop was left, if it was */
  exit?: string;
}

/** A call of the agent at a place, in one of its rounds of tools. Round 0 is beside them. */
export interface CallPlace {
  /** The round of tools, from 1. */
  round: number;
  /** The last part of its address. */
  label: string;
}

/** A call failed and waits for its next attempt. */
export interface CallWaiting {
  /** why it waits: `retry` */
  cause: "retry";
  /** how long it waits */
  seconds: number;
  /** the time at which the next attempt is made */
  until: string;
  /** the number of the attempt that failed, from 1 */
  attempt: number;
  /** how many attempts are made at most */
  of: number;
  /** the error of the attempt, in one line */
  error: string;
  /** the number of the call among the model calls of one execution of the node, from 1. Omitted if it is no call of a model */
  call?: number;
  /** the HTTP status with which the provider of a model refused. Omitted if there is none */
  status?: number;
  /** the model, as `provider:name`. Omitted if it is no call of a model */
  model?: string;
}

/** A value that somebody changed. */
export interface Change {
  /** a JSON pointer */
  path: string;
  /** the value before; omitted if there was none */
  before?: unknown;
  /** the value now; omitted if there is none */
  after?: unknown;
}

/** The messages of an agent became too many, and Roundel shortened the list. */
export interface ContextCompacted {
  /** `drop_oldest` or `summarize` */
  strategy: "drop_oldest" | "summarize";
  /** the tokens of the list before */
  before: number;
  /** the tokens of the list after */
  after: number;
  /** the number of messages that Roundel removed */
  messages: number;
}

/** What middleware or the node of a package tells, or an event that this version does not know. */
export interface Custom {
  /** the name that the middleware or the node gave */
  name: string;
  /** its fields */
  data: Record<string, unknown>;
}

/** A loop goes in circles. */
export interface DeadLoop {
  trigger: "dead_loop";
  /** `SUSPENDED_LOCKED` */
  state: string;
  /** the address where the breaker tripped; absent if a person locked the run */
  address?: string;
  /** the number of repetitive rounds */
  stale_rounds: number;
  /** the novelty of their messages */
  novelty: number[];
  /** the required novelty */
  threshold: number;
  /** the repetitive messages, each with `node`, `address`, `text` and `novelty`. `repeats` is the address of the earlier message, and `changed` lists the small differences, each as `[before, now]` */
  messages: LoopMessage[];
  /** the guard that bounds the loop, if there is one */
  guard?: string;
}

/** A participant of a `debate` answered. */
export interface DebateRound {
  /** the round of the debate */
  round: number;
  /** the participant */
  agent: string;
  /** the text of the answer */
  content: string;
}

/** A graph ended, and no node in its `end` has output. */
export interface EndNotReached {
  /** the edges toward an end that did not fire although their source ran */
  edges: string[];
}

/** How much of a limit is used. */
export interface GuardState {
  /** What it limits: rounds, seconds, tokens, …; `novelty` is one that must not fall below its limit. */
  kind: string;
  /** The node, loop or graph that has the limit. */
  name: string;
  /** How much is used. */
  used: number;
  /** The limit. */
  limit: number;
  /** How near it is: 1 if the limit is reached. */
  share: number;
  /** The address of the loop or node; empty for the whole run. */
  address?: string;
}

/** The run reached a limit, and no new step starts. */
export interface LimitReached {
  /** `rounds`; the name of a [budget](limits.md#limits); `unpriced` for a model [without a known price](limits.md#unknown-prices); `items` for a list that is too long; for an agent `tool_rounds` or `calls_per_round` */
  what: string;
  /** the limit */
  limit: number;
  /** the address where the run reached the limit */
  address: string;
  /** the owner of the budget: the name of a node, of the entry of a loop, or of a graph */
  scope?: string;
  /** for a budget: the amount used */
  spent?: number;
  /** for a budget: the amount reserved for calls in flight */
  reserved?: number;
  /** for a budget: the amount that the next step needs */
  wanted?: number;
  /** for `unpriced`: the model, as `provider:name`; `limit` is then the limit on the cost */
  model?: string;
  /** for `unpriced`: `usage` if the provider reported no usage; absent if no price is known */
  missing?: string;
  /** for a loop at its cap: the last messages in the loop, each with `node`, `address` and `text` */
  messages?: LoopMessage[];
  /** true if this locks the run; false if the run goes on, or is locked already */
  locks?: boolean;
}

/** Why a run is locked. */
export interface LockShown {
  /** a trigger of the breaker, or a limit */
  what: string;
  /** the limit */
  limit: number | null;
  /** where it was locked */
  address: string;
  /** all of it in one sentence */
  text: string;
}

/** A person locked the run. */
export interface LockedByHand {
  trigger: "manual";
  /** `SUSPENDED_LOCKED` */
  state: string;
  /** the address where the breaker tripped; absent if a person locked the run */
  address?: string;
  /** the reason */
  reason: string;
  /** the person */
  by: string;
}

/** A loop ended. It has the address of the last round of this entry, or that of the node if a `loop_agent` ended without a round. */
export interface LoopLeft {
  /** the loop */
  loop: string;
  /** the number of rounds since the loop was entered */
  rounds: number;
  /** [why the loop ended](loops.md#exit-reasons) */
  reason: string;
  /** the node whose edge left the loop. Omitted if no edge left the loop (`no_trigger`), and for a `loop_agent` or a `debate` */
  by?: string;
  /** the number of the last round */
  round?: number;
  /** which entry of the loop it was, from 1 */
  entry?: number;
  /** the round with the highest score, the first of equals; omitted if none has one */
  best?: number;
  /** for an exit by a `loop` node: the round whose output it has sent on */
  kept?: number;
  /** what everything inside the loop has used; omitted if no calls were made */
  usage?: RunUsage;
  /** how long it took */
  seconds?: number;
}

/** A message that was said in a loop, as evidence. */
export interface LoopMessage {
  /** the node that said it */
  node: string;
  /** its address */
  address: string;
  /** the beginning of its text */
  text: string;
  /** for a repetitive message: how new it is, from 0 to 1 */
  novelty?: number;
  /** for a repetitive message: the address of the earlier message that it repeats */
  repeats?: string;
  /** for a repetitive message: the small differences, each as `[before, now]` */
  changed?: string[][];
}

/** A loop that is running, in its current round. */
export interface LoopPosition {
  /** The address of the current round, such as `Writer[3]`. */
  address: string;
  /** The name of the loop. */
  loop: string;
  /** The number of the current round, from 1. */
  round: number;
  /** The most rounds that it can have: as proved, else its cap; null if there is no number. */
  limit: number | null;
  /** The guard that the limit follows from; empty for a cap, and for a node that repeats by itself. */
  by?: string;
}

/** A round of a loop, a `loop_agent` or a `debate` starts. */
export interface LoopRound {
  /** the loop: the id of its entry */
  loop: string;
  /** the number of the round, from 1 */
  round: number;
  /** for a round beside others of its loop: the first place, from 0, that was free when it began */
  lane?: number;
  /** the most rounds that this entry of the loop can have: the proved bound, or else the cap, as far as people have raised it */
  limit?: number;
  /** the guard that the limit follows from. Omitted for a cap, and for a `loop_agent` or a `debate` */
  limit_by?: string;
  /** for a loop that only its cap limits: the guards that end it after a time, as `Timer: 20 seconds` */
  clocks?: string[];
  /** which entry of the loop it is, from 1 */
  entry?: number;
  /** the addresses of the nodes whose edges began the round */
  triggered_by?: string[];
  /** for a `loop_agent` over a list: the beginning of the element */
  element?: string;
  /** for a `loop_agent` over a list: how many elements it has */
  elements?: number;
}

/** What a run did in one loop. */
export interface LoopTotals {
  /** the rounds of all entries */
  rounds: number;
  /** [why the loop ended](loops.md#exit-reasons) last */
  exit_reason: string;
  /** how many times it was entered */
  entries: number;
  /** the round with the highest score in the entry that ended last; omitted if it had no scores */
  best?: number;
}

/** Roundel could not read or write a memory, or the access took too long. */
export interface MemoryFailed {
  /** the memory */
  store: string;
  /** the error */
  error: string;
}

/** A fork changed the message at this address, or a person edited a queued message. */
export interface MessageEdited {
  /** the text of the new message. For a fork, it replaces the last message */
  text: string;
  /** for an edit: the number of the message in the queue of the node, from 0 */
  position?: number;
  /** for an edit that changed them: the structured fields of the message */
  data?: Record<string, unknown>;
  /** the person; omitted if that is not known */
  by?: string;
  /** the beginning of the text before */
  before?: string;
  /** `fork`, or `edit` of a queued message */
  cause?: "" | "edit" | "fork";
}

/** A model call is over. */
export interface ModelCallEnded {
  /** `completed`, `failed`, `cancelled` before it was answered, or `refused` if a limit that several runs share had no room for it */
  status: "cancelled" | "completed" | "failed" | "refused";
  /** the number of the call among the model calls of this execution, from 1 */
  call: number;
  /** as above */
  purpose: "answer" | "final" | "reflection" | "repair" | "summary";
  /** the model that answered, as `provider:name`. Omitted for scripted replies, and if none answered */
  model?: string;
  /** the number of input tokens. Omitted if it is not known, like the next two fields */
  input_tokens?: number;
  /** the number of output tokens */
  output_tokens?: number;
  /** the cost in dollars */
  cost_usd?: number;
  /** true if the answer came from the [cache](agents.md#response-cache) and cost nothing */
  cached?: boolean;
  /** true if a script answered */
  scripted?: boolean;
  /** the time inside the provider, of all attempts together: without waits between them, and commits. Omitted if it is not known */
  seconds?: number;
  /** for a streamed answer: the seconds of the last attempt until its first part */
  first_token?: number;
  /** why the model stopped: `stop`, `length`, `tool_calls` or `content_filter`. Omitted if the provider does not say */
  stop?: "" | "content_filter" | "length" | "stop" | "tool_calls";
  /** the attempts before the last one, each with what is known of `model`, `error`, `status`, `retry_after`, `seconds` and `waited` */
  attempts?: Attempt[];
  /** the digest of what the model got. Omitted if that is not stored */
  context?: string;
  /** for `failed`: the error */
  error?: string;
  /** for `failed`: the [type of the failure](failures.md#types) */
  type?: string;
  /** what the run has used so far, with this call. Omitted in what is left of runs that an earlier version pruned */
  total?: RunUsage;
}

/** A node calls a model. */
export interface ModelCallStarted {
  /** `running` */
  status: "running";
  /** the number of the call among the model calls of this execution, from 1 */
  call: number;
  /** `answer`; `repair` of an answer that does not fit the schema; `reflection` on the first answer; `final` for the answer after the last round of tools; `summary` of messages that are too many */
  purpose: "answer" | "final" | "reflection" | "repair" | "summary";
  /** the number of earlier calls of this node in the run, by which a script chooses its reply */
  ordinal: number;
}

/** A node is completed. */
export interface NodeCompleted {
  status: "completed";
  /** the text of its last message. Omitted if the node returned no message, or has `log_output: false` */
  output?: string;
  /** the structured fields of that message, if it has any. The same rule applies */
  data?: Record<string, unknown>;
  /** what the node says about this execution, if it says anything */
  report?: Record<string, unknown>;
  /** the number of messages that it returned */
  messages?: number;
  /** the score that it reports, or else the one in its data, if it is a number */
  score?: number;
  /** the port by which its messages leave; omitted if it named none */
  port?: string;
  /** what the calls of this execution used; omitted if it made none */
  usage?: RunUsage;
}

/** A node failed. */
export interface NodeFailed {
  status: "failed";
  /** the error */
  error: string;
  /** the [type of the failure](failures.md#types) */
  type: string;
  /** why the same call [must fail again](failures.md#permanent-failures); omitted if another attempt may succeed */
  reason?: string;
  /** true if an [error edge](failures.md) handled the failure */
  handled?: boolean;
  /** the node that failed, which may be inside this one */
  node?: string;
  /** the address of that node */
  origin?: string;
  /** the number of attempts */
  attempts?: number;
  /** true if the failure happened inside this node */
  inside?: boolean;
}

/** A node starts. */
export interface NodeRunning {
  status: "running";
  /** true if the node runs again because the run was [retried](failures.md#retry-a-failed-run) */
  retried?: boolean;
  /** the [type](nodes.md) of the node */
  type?: string;
  /** true if it calls a model */
  speaks?: boolean;
}

/** A node never ran, or was cancelled while it ran. */
export interface NodeSkipped {
  status: "skipped";
  /** the reason */
  reason: string;
  /** the reason as one word. `limit`: a limit that several runs share had no room for its call, which is made after the unlock */
  cause?: "" | "limit" | "loop_left" | "not_triggered" | "round_ended" | "run_failed" | "stopped";
  /** true if the node was in flight */
  ran?: boolean;
}

/** Why a run is paused. */
export interface PauseShown {
  /** the reason */
  reason?: string;
  /** where a breakpoint or a step paused it */
  address?: string;
  /** the breakpoint that paused it */
  breakpoint?: string;
}

/** The processes of the run died again and again. */
export interface ProcessesDied {
  trigger: "crashes";
  /** `SUSPENDED_LOCKED` */
  state: string;
  /** the address where the breaker tripped; absent if a person locked the run */
  address?: string;
  /** how many processes in a row died */
  crashes: number;
  /** the addresses of the calls that were in flight */
  in_flight: string[];
}

/** The progress that a function reports. */
export interface ProgressReported {
  /** the text that the function reports */
  text: string;
  /** the completed part, from 0 to 1. Omitted if the function does not report it */
  fraction?: number;
}

/** The run asks a person. */
export interface QuestionAsked {
  /** the question */
  prompt: string;
  /** for a human node: the messages in its queue, each with `source` and `text` */
  input?: QueuedInput[];
  /** for an agent: the call, with `name` and `arguments` */
  tool?: ToolToApprove;
  /** for a question with a [deadline](nodes.md#deadlines): the time by which the person must answer */
  deadline?: string;
  /** for a question with a deadline: the seconds until then */
  timeout?: number;
  /** for a tool: the address of the agent */
  caller?: string;
}

/** A question, as lists of runs show it. */
export interface QuestionShown {
  /** the address of the node that asks */
  address: string;
  /** the node that asks */
  node_id: string;
  /** the beginning of the question */
  prompt: string;
  /** the tool call that needs approval, with short arguments; null for another question */
  tool: ToolToApprove | null;
}

/** A message in the queue of a human node. */
export interface QueuedInput {
  /** the node that sent it */
  source: string;
  /** its text */
  text: string;
}

/** A request leaves for the provider of a model. */
export interface RequestSent {
  /** the number of the call among the model calls of one execution of the node, from 1 */
  call: number;
  /** the number of the attempt at this model, from 1 */
  attempt: number;
  /** how many attempts are made at most */
  of: number;
  /** the model, as `provider:name` */
  model: string;
}

/** A round ended. A run that ends first, failed or stopped, leaves rounds without this event; a retry continues them. */
export interface RoundFinished {
  /** the loop */
  loop: string;
  /** the number of the round, from 1 */
  round: number;
  /** `completed`; `failed` if a failure ended it; `cancelled` if something else did before it was over */
  status: "cancelled" | "completed" | "failed";
  /** the lane of the round */
  lane?: number;
  /** the last score inside the round; omitted if there was none */
  score?: number;
  /** the round with the highest score of this entry so far, the first of equals; omitted if none has one */
  best?: number;
  /** what everything inside the round has used; omitted if no calls were made */
  usage?: RunUsage;
  /** how long it took */
  seconds?: number;
  /** how long it took, without the time in which the run did not work: questions alone, pauses, locks */
  work_seconds?: number;
  /** how many times a node inside failed, without failures that an error edge handled at once */
  failures?: number;
}

/** The last event of a run. A run that was retried has several; the last one counts. */
export interface RunFinished {
  /** the status */
  status: "completed" | "failed" | "stopped";
  /** the text of the result; empty if there is none */
  output: string;
  /** how many times each node ran, by id; nodes that never ran are omitted */
  nodes: Record<string, number>;
  /** for each loop `rounds` (in total), `exit_reason` (the last one), and `entries` (how many times it was entered) */
  loops: Record<string, LoopTotals>;
  /** `model_calls`, `tool_calls`, `input_tokens`, `output_tokens`, `cost_usd` (null if no price is known), `unpriced_calls` */
  usage: RunUsage;
  /** the structured fields of the result, if it has any */
  data?: Record<string, unknown>;
  /** the error with its address; omitted if nothing failed */
  error?: string;
  /** for `failed`: why a retry without changes [must fail again](failures.md#permanent-failures); omitted if it may succeed */
  reason?: string;
  /** for a run that ended while it was locked: the `what`, `limit`, `address`, `node_id` and `evidence` of the lock */
  lock?: Record<string, unknown>;
  /** for a run that ended while a question was open: the first [deadline](nodes.md#deadlines) */
  deadline?: string;
  /** the address of the node whose failure ended the run; omitted if none did */
  failed_at?: string;
  /** how long the run has worked: without waits for people, pauses and locks */
  work_seconds?: number;
  /** the person who stopped the run, if one did and is known */
  by?: string;
}

/** How far the run is, as lists of runs show it. */
export interface RunProgress {
  /** the loops that are running, outer ones first, each with the `address` of its current round, `loop`, `round`, its `limit`, and `by`, the guard that the limit follows from */
  loops: LoopPosition[];
  /** the limits that are nearest, at most 10, the nearest first, each with `kind`, `name`, `used`, `limit`, `share` (1 if the limit is reached) and `address` */
  guards: GuardState[];
  /** the newest score; null if there was none */
  score: number | null;
  /** the scores of the last rounds of one loop, the oldest first: of the innermost running loop that has scores, else of the loop that had one last */
  scores: number[];
  /** the score that ends this loop; null if no score does */
  threshold: number | null;
  /** what the run has used so far */
  usage: RunUsage;
  /** the ids of nodes that work now, at most 5 */
  active: string[];
  /** the addresses of the open questions */
  questions: string[];
  /** how long the run has worked so far: without waits for people, pauses and locks */
  work_seconds: number;
  /** the first open question, shortened; omitted if there is none */
  question?: QuestionShown;
  /** why the run is paused; omitted if it is not */
  pause?: PauseShown;
  /** why the run is locked; omitted if it is not */
  lock?: LockShown;
}

/** The first event of every run. */
export interface RunStarted {
  /** the `id` of the graph */
  workflow: string;
  /** the text of the input */
  input: string;
  /** the [model of agents that name none](agents.md#model-of-a-run), if one was chosen for the run */
  model?: string;
}

/** The run waits, is paused or locked, or continues after an answer, a pause, an unlock or a retry. */
export interface RunStateChanged {
  /** the status */
  status: "paused" | "running" | "suspended_locked" | "waiting";
  /** the reason as text; `retried` after a [retry](failures.md#retry-a-failed-run); `breakpoint` or `step` if [debugging](debugging.md) paused the run, and `step` when a step begins */
  reason: string;
  /** for a pause during debugging: the address of the ready node; omitted if no node is ready */
  address?: string;
  /** for a pause by a breakpoint: the breakpoint as text */
  breakpoint?: string;
  /** what changed the status, as one word. `limit` is any limit that locks, `breaker` any trigger of the breaker but `crashes`; `revised` is a retry with changes */
  cause?: "" | "answer" | "breaker" | "breakpoint" | "crashes" | "limit" | "pause" | "question" | "resume" | "retry" | "revised" | "step" | "timeout" | "unlock";
  /** the person who caused it; omitted if that is not known, or nobody did */
  by?: string;
  /** for `waiting`: the addresses of the open questions */
  questions?: string[];
  /** what the run has used so far */
  total?: RunUsage;
  /** how long the run has worked so far: without waits for people, pauses and locks */
  work_seconds?: number;
}

/** What a run, a loop, a round or an execution of a node has used. */
export interface RunUsage {
  /** the model calls, also those that failed; without replies from the cache and cancelled calls */
  model_calls: number;
  /** the tool calls */
  tool_calls: number;
  /** the input tokens */
  input_tokens: number;
  /** the output tokens */
  output_tokens: number;
  /** the cost in dollars; null if no price is known */
  cost_usd: number | null;
  /** the model calls that were answered and whose cost is not known */
  unpriced_calls: number;
  /** the replies that came from the [cache](agents.md#response-cache); omitted if there are none */
  cached_calls?: number;
  /** the model calls that were cancelled before they were answered, whose tokens are not known; omitted if there are none */
  cancelled_calls?: number;
}

/** The score of a `loop` fell by more than its `regression`. */
export interface ScoreRegression {
  /** the score of this round */
  score: number;
  /** the previous score */
  previous: number;
  /** the difference */
  fall: number;
  /** the round */
  round: number;
}

/** A limit that all runs of a group or a token share is reached. */
export interface SharedLimitReached {
  trigger: "group_limit";
  /** `SUSPENDED_LOCKED` */
  state: string;
  /** the address where the breaker tripped; absent if a person locked the run */
  address?: string;
  /** the [limit of the group or the token](allow-list.md#limits) */
  limit: number;
  /** what is limited */
  what: string;
  /** the period */
  per: string;
  /** the owner of the limit */
  scope: string;
  /** the amount used */
  spent: number;
  /** the amount reserved for calls in flight */
  reserved: number;
  /** the amount that the call needs */
  wanted: number;
  /** when the period ends; without it, it does not */
  resets?: string;
}

/** The run has worked for too long. */
export interface TimeUsedUp {
  trigger: "timeout";
  /** `SUSPENDED_LOCKED` */
  state: string;
  /** the address where the breaker tripped; absent if a person locked the run */
  address?: string;
  /** the working time of the run */
  seconds: number;
  /** the limit */
  limit: number;
}

/** A part of the answer of a model, while the model streams it. */
export interface TokenStream {
  /** the part */
  text: string;
  /** the attempt that the part belongs to, from 1. A new attempt replaces the text of the earlier attempts */
  attempt: number;
  /** the number of characters of this attempt before this part */
  offset: number;
}

/** The run has used far more tokens than expected. */
export interface TokenSurge {
  trigger: "token_surge";
  /** `SUSPENDED_LOCKED` */
  state: string;
  /** the address where the breaker tripped; absent if a person locked the run */
  address?: string;
  /** the tokens of the run */
  tokens: number;
  /** the [usual tokens](limits.md#the-breaker) */
  estimate: number;
  /** how many times as many trip the breaker */
  factor: number;
  /** the tokens of the last call. Absent in runs that an earlier version started, as are the next two fields */
  call?: number;
  /** the tokens that are usual for that call */
  usual_call?: number;
  /** the number of calls */
  calls?: number;
}

/** A tool call has a result. */
export interface ToolCallEnded {
  /** the tool */
  name: string;
  /** the arguments; if a person changed them, the changed arguments */
  arguments: unknown;
  /** `completed`, `failed`, `refused`, `rejected`, `repeated` for a call that [Roundel did not repeat](breaker.md#repeated-tool-calls), or `cancelled` before it had a result */
  status: "cancelled" | "completed" | "failed" | "refused" | "rejected" | "repeated";
  /** the tool round, from 1 */
  round: number;
  /** the id that the model gave to the request */
  id: string;
  /** the result that the model receives; empty if it was cancelled */
  result: string;
  /** the address of the agent */
  caller?: string;
  /** the `round` of tools, and the `label` of the call in it */
  call?: CallPlace;
  /** true if the tool was called, and the call counts in `total` */
  called?: boolean;
  /** the time inside the tool, of all attempts together. Omitted if it was not called, or it is not known */
  seconds?: number;
  /** how many seconds a person took to decide about it. Omitted if nobody was asked */
  waited?: number;
  /** the attempts before the last one, each with its `error`, `seconds` and `waited` */
  attempts?: Attempt[];
  /** what the run has used so far, with this call. Omitted in what is left of runs that an earlier version pruned */
  total?: RunUsage;
}

/** A model requested a tool. */
export interface ToolCallStarted {
  /** the tool */
  name: string;
  /** the arguments; if a person changed them, the changed arguments */
  arguments: unknown;
  /** `waiting` for a person, or `running` */
  status: "running" | "waiting";
  /** the tool round, from 1 */
  round: number;
  /** the id that the model gave to the request */
  id: string;
  /** the address of the agent */
  caller?: string;
  /** the `round` of tools, and the `label` of the call in it */
  call?: CallPlace;
}

/** A tool call that needs approval. */
export interface ToolToApprove {
  /** the tool */
  name: string;
  /** the arguments */
  arguments: unknown;
}

/** Something is probably not as intended, and the run continues. */
export interface Warned {
  /** the warning text */
  message: string;
  /** what it is about, as one word: `stale` for a loop that hardly changes, `unpriced` for a price that is not known, `truncated` for an answer that was cut off, `retried` for attempts of a model that failed, `no_answer` for a model that gave none, `no_summary` for messages that were dropped instead, `no_list` for an input that is no list, `judge_unclear`, or `breakpoint` for a condition that fails */
  code?: string;
  /** for a loop that hardly changes: the address of its round */
  address?: string;
  /** for a loop that hardly changes: the messages, as in [`breaker_tripped`](#breaker_tripped) */
  messages?: LoopMessage[];
  /** for a loop that hardly changes: the guard that bounds it */
  guard?: string;
  /** for a price that is not known: the model, as `provider:name`; empty if the agent names none */
  model?: string;
}

/** A round of a loop, or the inside of a node. Numbers count from 1. */
export interface PathStep {
  /** The entry of a loop of edges. */
  loop?: string;
  /** A node with a graph inside. */
  node?: string;
  round?: number;
  part?: string;
  repeat?: number;
}

/** What every event has (docs/events.md). */
export interface Envelope {
  /** Missing for a transient event. */
  seq?: number;
  timestamp: string;
  run_id: string;
  node_id?: string;
  address?: string;
  /** What is around the node, outermost first. */
  path?: PathStep[];
  /** The number of a part of a dynamic edge: "2" or "2.1". */
  part?: string;
}

export type RunEvent =
  | (Envelope & { event: "run_started"; data: RunStarted })
  | (Envelope & { event: "loop_round"; data: LoopRound })
  | (Envelope & { event: "node_state_change"; data: NodeRunning | NodeCompleted | NodeFailed | NodeSkipped })
  | (Envelope & { event: "token_stream"; data: TokenStream })
  | (Envelope & { event: "progress"; data: ProgressReported })
  | (Envelope & { event: "call_sent"; data: RequestSent })
  | (Envelope & { event: "call_waiting"; data: CallWaiting })
  | (Envelope & { event: "run_progress"; data: RunProgress })
  | (Envelope & { event: "context_compacted"; data: ContextCompacted })
  | (Envelope & { event: "model_call"; data: ModelCallStarted | ModelCallEnded })
  | (Envelope & { event: "aside_usage"; data: AsideUsage })
  | (Envelope & { event: "tool_call"; data: ToolCallStarted | ToolCallEnded })
  | (Envelope & { event: "human_input_required"; data: QuestionAsked })
  | (Envelope & { event: "human_input_received"; data: AnswerReceived })
  | (Envelope & { event: "human_input_timeout"; data: AnswerTimeout })
  | (Envelope & { event: "score_regression"; data: ScoreRegression })
  | (Envelope & { event: "debate_round"; data: DebateRound })
  | (Envelope & { event: "round_finished"; data: RoundFinished })
  | (Envelope & { event: "loop_exit"; data: LoopLeft })
  | (Envelope & { event: "limit_reached"; data: LimitReached })
  | (Envelope & { event: "breaker_tripped"; data: DeadLoop | TokenSurge | TimeUsedUp | ProcessesDied | LockedByHand | SharedLimitReached })
  | (Envelope & { event: "breaker_unlocked"; data: BreakerUnlocked })
  | (Envelope & { event: "warning"; data: Warned })
  | (Envelope & { event: "memory_error"; data: MemoryFailed })
  | (Envelope & { event: "message_edited"; data: MessageEdited })
  | (Envelope & { event: "run_state_change"; data: RunStateChanged })
  | (Envelope & { event: "end_not_reached"; data: EndNotReached })
  | (Envelope & { event: "custom"; data: Custom })
  | (Envelope & { event: "run_finished"; data: RunFinished });
