// Written by tools/web_types.py from docs/openapi.json. `make tables` writes it again.

/** What workflows that reach the server as text may use, by name. */
export interface Allowed {
  /** Python functions. */
  functions: string[];
  /** MCP servers. */
  mcp: string[];
  /** Environment variables. */
  environment: string[];
  /** Providers, and the hosts of other endpoints. */
  models: string[];
  /** Whether code that models write may run. */
  python_code: boolean;
  /** Whether some folders are allowed. */
  files: boolean;
}

/** An answer to a question. */
export interface AnswerBody {
  /** The text. */
  text?: string | null;
  /** Structured fields. */
  data?: Record<string, JsonValue> | null;
  /** The address of the question; needed if there are several. */
  at?: string;
}

/** One attempt at a call that failed. */
export interface Attempt {
  /** The model, as `provider:name`; empty for other calls, and if only the node knows of the attempt. */
  model?: string;
  /** Its error, in one line. */
  error?: string;
  /** The HTTP status with which the provider refused; None if there is none. */
  status?: number | null;
  /** How many seconds the provider asked to wait; None if it did not. */
  retry_after?: number | null;
  /** The time inside the provider or the function. */
  seconds?: number;
  /** The wait before the next attempt. */
  waited?: number;
}

/** Who did what. */
export interface AuditEntry {
  /** The number of the entry. */
  number: number;
  /** When it happened. */
  time: string;
  /** The id, name and role of the caller; null for somebody who is not signed in. */
  who: Record<string, unknown> | null;
  /** What was done, such as `run.start`. */
  action: string;
  /** What it was done to: the id of a run, the name of a workflow. */
  subject: string;
  /** More about it, depending on the action. */
  details: Record<string, unknown>;
}

/** A page of the audit log. */
export interface AuditList {
  /** The entries of this page. */
  entries: AuditEntry[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
}

/** The figures of several rounds together. */
export interface BandView {
  /** The number of the first round. */
  from: number;
  /** The number of the last round. */
  to: number;
  /** The highest score. */
  best_score: number | null;
  /** The score in the middle. */
  median_score: number | null;
  /** The tokens of all rounds. */
  tokens: number;
  /** What they cost; null if no price is known. */
  cost_usd: number | null;
  /** How long they took. */
  seconds: number;
  /** When the first of them began. */
  started: string;
  /** When the last of them ended; null if one is running. */
  ended: string | null;
  /** How many of them have failed. */
  failed: number;
}

/** One typed part of a message that is more than plain text. */
export interface Block {
  /** What kind of block it is. */
  type: "audio" | "data" | "file" | "image" | "text" | "video";
  /** Its text. */
  text: string;
  /** Where its content is. */
  url: string;
  /** The media type of its content. */
  media_type: string;
  /** Its content. */
  data: unknown;
}

/** A node that is not ready, and what it waits for. */
export interface BlockedNode {
  /** Its address in the run, such as `Writer[3]`. */
  address: string;
  /** The id of the node. */
  node_id: string;
  /** The type of the node. */
  type: string;
  /** The ids of the nodes, or of the entries of loops, that have to settle first. */
  waits_for: string[];
  /** Whether it would run then; otherwise an edge has to trigger it. */
  is_triggered: boolean;
}

/** A breakpoint: a place, or a condition. */
export interface BreakpointBody {
  /** A node or an address, such as `Writer` or `Writer[3]`. */
  at?: string;
  /** A condition in CEL. */
  cel?: string;
}

/** A breakpoint of a run, and how often it was reached. */
export interface BreakpointState {
  /** The breakpoint as it was set. */
  text: string;
  /** How often it was reached. */
  hits: number;
  /** Why its condition could not be evaluated, the first time. */
  problem: string;
}

/** Breakpoints to set and to remove. */
export interface BreakpointsBody {
  /** Breakpoints to set. */
  add?: (string | BreakpointBody)[];
  /** Breakpoints to remove. */
  remove?: (string | BreakpointBody)[];
}

/** The limits that the caller may see. */
export interface BudgetList {
  /** At most 200: those of the caller's groups and token, or all that anything was spent of. */
  budgets: BudgetView[];
}

/** One limit of a group or a token. */
export interface BudgetPart {
  /** What it limits. */
  what: "runs" | "model_calls" | "tokens" | "cost_usd";
  /** The limit. */
  limit: number;
  /** What is used: for `runs`, how many are running. */
  used: number;
  /** What calls in flight may use. */
  reserved: number;
}

/** The limits of a group or a token, and how much of them is used. */
export interface BudgetView {
  /** Whose limits they are. */
  kind: "group" | "token";
  /** The name of the group or the token; empty for the group without a name. */
  name: string;
  /** The id of the token. */
  token: string;
  /** The period, in UTC. */
  per: "day" | "month" | "total";
  /** When the amounts begin at zero again; null if they do not. */
  resets: string | null;
  /** The limits. */
  parts: BudgetPart[];
}

/** One call of a model or a tool: what it got, and how it went. */
export interface CallDetails {
  /** The id of the run. */
  run_id: string;
  /** The address of the call. */
  address: string;
  /** The id of the node that made it. */
  node_id: string;
  /** What is around the node, as in events. */
  path: PathStep[];
  /** The part of a dynamic edge. */
  part: string;
  /** What was called. */
  kind: "model" | "tool";
  /** Its number among the calls at its address, from 1. */
  call: number;
  /** How many calls there are at the address. */
  calls: number;
  /** Whether it has ended. */
  state: "ended" | "in_flight";
  /** Whether all that it got is here. */
  complete: boolean;
  /** Why not. */
  why: string;
  /** The model that answered, as `provider:name`. */
  model: string;
  /** The settings that the model got, without keys and headers. */
  params: Record<string, unknown>;
  /** Whether the model might use the tools. */
  may_call: boolean;
  /** Whether the model was told who said what, where several nodes spoke to it. */
  speakers: boolean;
  /** The system text. */
  system: CallPart | null;
  /** The messages, the oldest first. */
  messages: CallPart[];
  /** The rounds of tools behind them: what the model said, its calls and their results. */
  exchanges: CallPart[];
  /** The messages behind those: earlier answers, and instructions to repair or reflect. */
  after: CallPart[];
  /** The declarations of the tools. */
  tools: CallPart | null;
  /** The JSON Schema of the answer. */
  schema: CallPart | null;
  /** How many messages and rounds in the middle are not listed. */
  omitted: number;
  /** What the model answered: its text, and in `value` its `data` and `tool_calls`. */
  reply: CallPart | null;
  /** What the call used. */
  usage: Usage | null;
  /** Why the model stopped. */
  stop: string;
  /** The name of the tool. */
  tool: string;
  /** How the call of the tool ended, as in `tool_call`; `waiting` for a person, or `running`. */
  status: string;
  /** The arguments that the model asked for. */
  arguments: CallPart | null;
  /** The arguments that a person allowed, if one was asked. */
  approved: CallPart | null;
  /** Who decided about the call. */
  by: string;
  /** What the tool returned. */
  result: CallPart | null;
  /** The failed attempts before the last one. */
  attempts: Attempt[];
  /** The time inside the provider or the tool; null if it is not known. */
  seconds: number | null;
  /** Seconds until the first part of a streamed answer. */
  first_token: number | null;
  /** Why it failed. */
  error: string;
  /** The kind of the failure. */
  error_type: string;
}

/** A part of what a call got or returned. */
export interface CallPart {
  /** Its name, with which its text can be read in pages. */
  piece: string;
  /** What it is; `missing` if it is not stored any more. */
  kind: "approved" | "arguments" | "exchange" | "message" | "missing" | "reply" | "result" | "schema" | "system" | "tools";
  /** `user`, `assistant` or `system`, for a message. */
  role: string;
  /** The id of the node that sent the message. */
  source: string;
  /** Its text. */
  text: string;
  /** What is no text: the blocks of a message, the calls and results of a round of tools, arguments, a schema. */
  value: unknown;
  /** Its length, if it is not complete. */
  bytes: number;
  /** How many bytes are missing in the middle. */
  cut: number;
  /** The answer has only the beginning of the text, or nothing of it; `?piece=` reads all of it. */
  more: boolean;
  /** Why it is not complete. */
  why: string;
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
  call?: number | null;
  /** the HTTP status with which the provider of a model refused. Omitted if there is none */
  status?: number | null;
  /** the model, as `provider:name`. Omitted if it is no call of a model */
  model?: string;
}

/** Every node type, and every other object of a workflow, with its fields in order. */
export interface Catalog {
  /** Every node type by name: title, description, ports, fields, example. */
  node_types: Record<string, Record<string, unknown>>;
  /** Every other object of a workflow by name: title, description, fields. */
  objects: Record<string, Record<string, unknown>>;
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

/** The changes that a retry, a fork or a replay brings. */
export interface ChangesBody {
  /** Another workflow: the name of a saved one, or a text. */
  workflow?: string | WorkflowText | null;
  /** Other limits. */
  limits?: Record<string, number | "lock" | "allow">;
  /** Other values of variables; they need `workflow`. */
  variables?: Record<string, string | number | boolean | null>;
}

/** A text to check. */
export interface CheckBody {
  /** The text of a workflow. */
  text: string;
  /** Values of variables. */
  variables?: Record<string, string | number | boolean | null>;
  /** The name of the file in diagnostics. */
  name?: string;
  /** `compact` draws smaller. */
  density?: "normal" | "compact";
  /** Keys of nodes with graphs inside that are drawn as single cards; keys of other nodes are ignored. */
  collapsed?: string[];
}

/** What is known about a text. */
export interface CheckResult {
  /** It has no errors, and can be run. */
  ok: boolean;
  /** It has errors, and is drawn as far as it can be read. */
  draft: boolean;
  /** The name that runs of it have. */
  workflow: string;
  /** Errors and warnings. */
  diagnostics: Diagnostic[];
  /** What bounds each loop; empty for a draft. */
  loops: Proof[];
  /** The variables of the workflow. */
  variables: VariableView[];
  /** Everything in the text; null if it has no graph. */
  drawing: Drawing | null;
  /** The same with the nodes of `collapsed` as single cards; null if there are none of them. */
  collapsed_drawing: Drawing | null;
}

/** What the graphs inside a collapsed node have, with all graphs inside those. */
export interface Contents {
  /** The number of nodes. */
  nodes: number;
  /** The number of edges. */
  edges: number;
  /** The number of loops, also of those that a node is itself. */
  loops: number;
}

/** Where to copy a workflow. */
export interface CopyBody {
  /** The name of the copy. */
  name: string;
  /** The group of the copy; without it, the first of the caller. */
  group?: string | null;
}

/** How much was deleted. */
export interface Deleted {
  /** How many entries were deleted. */
  deleted: number;
}

/** One error or warning. Lines and columns count from 1; 0 means unknown. The code is stable and documented (docs/errors.md); message and hint are for people, and may change. */
export interface Diagnostic {
  /** The stable code, which the manual explains. */
  code: string;
  /** Whether it prevents a run. */
  severity: "error" | "warning";
  /** The name of the text or file. */
  file: string;
  /** The line, from 1; 0 if unknown. */
  line: number;
  /** The column, from 1; 0 if unknown. */
  column: number;
  /** What is wrong. */
  message: string;
  /** What to do about it; may be empty. */
  hint: string;
}

/** An error or a warning, with its place in the text. */
export interface DiagnosticView {
  /** The stable code, which the manual explains. */
  code: string;
  /** `error` or `warning`. */
  severity: string;
  /** The name of the text. */
  file: string;
  /** The line, from 1; 0 if it is about the whole text. */
  line: number;
  /** The column, from 1; 0 if it is about the whole line. */
  column: number;
  /** What is wrong. */
  message: string;
  /** What to do about it; may be empty. */
  hint: string;
}

/** Where a rerun first differs from what happened. Created by Rerun. */
export interface Difference {
  /** Where it is, such as `Writer[3]`. */
  address: string;
  /** What is different. */
  what: string;
  /** What happened in the run. */
  before: string;
  /** What would happen now. */
  now: string;
}

/** A laid out workflow; `roundel.drawing.assembly.draw` creates it. */
export interface Drawing {
  /** How much room it takes. */
  density: "compact" | "normal";
  /** The width of the whole drawing. */
  width: number;
  /** The height of the whole drawing. */
  height: number;
  /** The name of the workflow. */
  title: string;
  /** Lines below the title. */
  captions: string[];
  /** A region precedes the regions inside it, so that they can be painted in this order. */
  regions: Region[];
  /** All nodes. */
  nodes: DrawnNode[];
  /** Where inputs enter, and where votes are counted. */
  marks: Mark[];
  /** All edges. */
  edges: DrawnEdge[];
  /** Problems of the workflow as a whole; nodes, edges and regions have their own. */
  problems: Diagnostic[];
}

/** An edge of the workflow; or a line from the mark `start`, or to the mark `vote`. */
export interface DrawnEdge {
  /** The key of a node or of a mark. */
  source: string;
  /** The key of a node or of a mark. */
  target: string;
  /** An edge of the workflow, or a line from or to a mark. */
  kind: "edge" | "start" | "vote";
  /** Whether it leads to the entry of a loop around it, and so begins the next round. */
  back: boolean;
  /** Whether it leaves a loop. */
  leaves: boolean;
  /** Whether a message on it makes the target run. */
  triggers: boolean;
  /** The port that it leaves by; empty for the usual one. */
  port: string;
  /** Whether only this port takes it: a failure (`error`), a timeout or an exit. */
  explicit: boolean;
  /** Its port, condition and processing, not cut. */
  text: string;
  /** Its text as drawn; None if it has none. */
  label: Label | null;
  /** Pieces of points. The first is the start; then one point is a line, three points are a cubic curve. */
  route: number[][][];
  /** Errors and warnings about it. */
  problems: Diagnostic[];
}

/** A node of the workflow. */
export interface DrawnNode {
  /** Unique in the drawing: its id, preceded by the ids of the nodes that contain it. */
  key: string;
  /** The id of the node. */
  id: string;
  /** The type of the node. */
  type: string;
  /** Whether it bounds a loop. */
  guard: boolean;
  /** The id, cut to the width of the box. */
  label: string;
  /** The type and the limit, cut to the width of the box. */
  caption: string;
  /** Where it is. */
  box: Rect;
  /** Whether the input of its graph enters here. */
  start: boolean;
  /** Whether its output is a result of its graph. */
  end: boolean;
  /** The key of the region that contains it; empty at the top. */
  parent: string;
  /** The key of its own region, if it has graphs inside that are drawn. */
  region: string;
  /** What is inside it, if it is collapsed: a single card instead of a region. */
  inside: Contents | null;
  /** Whether it does not exist: only an edge, `start` or `end` names it. */
  missing: boolean;
  /** Errors and warnings about it; if it is collapsed, also about what is inside it. */
  problems: Diagnostic[];
}

/** An edge of the node that asks, and whether the answer would take it. */
export interface EdgePreview {
  /** The id of the node that asks. */
  source: string;
  /** The id of the node that the edge leads to. */
  target: string;
  /** Its port, condition and processing; empty for a plain edge. */
  text: string;
  /** Whether the answer takes it. If one that leaves a loop is taken and triggers, there is no further round. */
  fires: boolean;
  /** Why this is not known: the condition failed, or is a Python function; null if it is known. */
  error: string | null;
  /** Whether it leaves a loop. */
  leaves: boolean;
  /** Whether it leads to the entry of a loop, and so begins the next round. */
  back: boolean;
  /** Whether a message on it makes the target run. */
  triggers: boolean;
}

/** A new content for a message that waits. */
export interface EditBody {
  /** The address of the node at which the message waits; empty for the first that is ready. */
  at?: string;
  /** Its number in the queue, from 0; null for the last one. */
  position?: number | null;
  /** The new text. */
  text?: string | null;
  /** The new structured fields. */
  data?: Record<string, JsonValue> | null;
  /** The `version` of the message that was read, so that two people do not overwrite each other. */
  version?: string;
}

/** A worst case and a typical case. */
export interface Estimate {
  /** None if nothing bounds it, or the bound is too large to be of use. */
  worst: number | null;
  /** What is usual. */
  typical: number;
}

/** The rows of all nodes, and their sums. */
export interface Forecast {
  /** One row for each node. */
  nodes: NodeForecast[];
  /** The calls of models in the whole run. */
  model_calls: Estimate;
  /** The calls of tools in the whole run. */
  tool_calls: Estimate;
  /** The tokens of the whole run. */
  tokens: Estimate;
  /** A rule of thumb, for the agents whose price is known; None if none is. */
  cost_usd: number | null;
  /** The agents whose price is not known. */
  unpriced: string[];
  /** What the figures assume. */
  assumptions: string[];
}

/** A text to forecast. */
export interface ForecastBody {
  /** The text of a workflow. */
  text: string;
  /** Values of variables. */
  variables?: Record<string, string | number | boolean | null>;
  /** Limits to use instead of those in the text. */
  limits?: Record<string, number | "lock" | "allow">;
  /** The name of the file in diagnostics. */
  name?: string;
}

/** What a run of a text may take. */
export interface ForecastResult {
  /** Errors and warnings. */
  diagnostics: Diagnostic[];
  /** None if the text has errors. */
  forecast: Forecast | null;
  /** What bounds each loop. */
  loops: Proof[];
}

/** Where a new run departs from this one, and with which changes. */
export interface ForkBody {
  /** Another workflow: the name of a saved one, or a text. */
  workflow?: string | WorkflowText | null;
  /** Other limits. */
  limits?: Record<string, number | "lock" | "allow">;
  /** Other values of variables; they need `workflow`. */
  variables?: Record<string, string | number | boolean | null>;
  /** Replies of models, tools and people, as a script file has them, or its text. Tools without a result in it are called only if the role of the caller is author, and approvals are given by people. */
  script?: Record<string, JsonValue> | string | null;
  /** The address at which the new run begins; empty for where the run is now. */
  at?: string;
  /** Another message at this point. */
  message?: string | null;
  /** Whether the new run begins at once. */
  run?: boolean;
}

/** A Python function that workflows may name; `module:*` stands for all functions of a module. */
export interface FunctionView {
  /** The name of the function, `module:function`. */
  name: string;
  /** What an installed package has registered it as; null if it may be used as anything. */
  kind?: "function" | "tool" | "condition" | "processor" | "middleware" | null;
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

/** How much of a limit is used. */
export interface GuardView {
  /** What it limits: rounds, seconds, tokens, … */
  kind: string;
  /** The node, loop or graph that has the limit. */
  name: string;
  /** How much is used. */
  used: number;
  /** The limit. */
  limit: number;
  /** How near it is: 1 if the limit is reached. */
  share: number;
}

/** The server works. */
export interface Health {
  /** `ok`. */
  status: string;
}

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

export type JsonValue = unknown;

/** The text on an edge, each line centred in the box. */
export interface Label {
  /** The lines of the text. */
  lines: string[];
  /** Where it is. */
  box: Rect;
}

/** One guard, or several edges, that bound a loop. */
export interface Limit {
  /** A node; or edges, such as `Reviewer → Writer`, whose conditions prevent a further round. */
  guard: string;
  /** A number of rounds; or a time such as `20 seconds`, after which the guard's next run ends the loop. */
  limit: number | string;
}

/** Why a run is locked. */
export interface LockBody {
  /** Why, for people. */
  reason: string;
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

/** The rounds of one loop. */
export interface LoopFigures {
  /** The name of the loop. */
  loop: string;
  /** Why it was last left; empty if it was not left yet. */
  exit_reason: string;
  /** Single rounds; or, with `band`, aggregates. */
  rounds: RoundView[] | BandView[];
  /** The cursor of the next page of this loop, to be given together with `loop`; null on the last one. */
  next?: string | null;
}

/** What became of a loop of a run that is over. */
export interface LoopOutcome {
  /** The name of the loop. */
  loop: string;
  /** All rounds that it had. */
  rounds: number;
  /** Why it was last left; empty if it was not. */
  exit_reason: string;
  /** How often it was entered. */
  entries: number;
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

/** What became of a loop. */
export interface LoopResult {
  /** All rounds that it had. */
  rounds: number;
  /** Why it was last left; null if it was not. */
  exit_reason?: string | null;
  /** How often it was entered. */
  entries: number;
}

/** How a `loop` node decides whether there is another round. */
export interface LoopRule {
  /** The id of the node. */
  node: string;
  /** The most rounds. */
  max_rounds: number;
  /** The score that ends the loop; null if none does. */
  exit_on_score: number | null;
  /** So many rounds in a row without a gain end the loop; null if they do not. */
  patience: number | null;
  /** What counts as a gain. */
  min_delta: number;
  /** Which output it keeps: `last` or `best`. */
  keep: string;
}

/** A loop that is running. */
export interface LoopView {
  /** The address of the current round, such as `Writer[3]`. */
  address: string;
  /** The name of the loop. */
  loop: string;
  /** The number of the current round, from 1. */
  round: number;
  /** The most rounds that it can have; null if there is no number. */
  limit?: number | null;
  /** The guard that the limit follows from; empty for a cap. */
  by: string;
}

/** The source of a graph's input, or the place where votes are counted. */
export interface Mark {
  /** Unique in the drawing. */
  key: string;
  /** What it marks. */
  kind: "start" | "vote";
  /** Its text. */
  text: string;
  /** Where it is. */
  box: Rect;
}

/** An MCP server that workflows may use: a program, or an address. A workflow names it exactly so. */
export interface McpView {
  /** Its name. */
  name: string;
  /** The program; empty if it is an address. */
  command: string;
  /** The arguments of the program. */
  args: string[];
  /** The address; empty if it is a program. */
  url: string;
}

/** The caller. */
export interface Me {
  /** The name of the token. */
  name: string;
  /** The role; each contains the ones before it. */
  role: "viewer" | "operator" | "author" | "admin";
  /** The groups that the caller sees; null is all of them. */
  groups: string[] | null;
  /** When the token expires. */
  expires?: string | null;
}

/** A page of entries. */
export interface MemoryList {
  /** The entries of this page. */
  entries: MemoryView[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
}

/** Entries that were found or added. */
export interface MemoryMatches {
  /** The entries. */
  entries: MemoryView[];
}

/** An entry of a memory. */
export interface MemoryView {
  /** The id of the entry. */
  id: number;
  /** The memory that it is in: `working`, `long_term`, or another one. */
  shelf: string;
  /** The text. */
  text: string;
  /** When it was written. */
  time: string;
  /** The run that wrote it; empty if a person did. */
  run_id: string;
  /** The node that wrote it. */
  node: string;
  /** The address of that node in the run. */
  address: string;
  /** The confidence that the node gave, from 0 to 1. */
  confidence?: number | null;
}

/** A message. Nodes and edges create new ones with `msgspec.structs.replace` instead of changing them. `gc=False` keeps messages out of Python's cycle collector, since runs have many. That is safe as long as no message can be part of a reference cycle: `data` and `metadata` are plain JSON. */
export interface Message {
  /** The text, or a list of blocks. */
  content: string | Block[];
  /** `user`, `assistant` or `system`. */
  role: "assistant" | "system" | "tool" | "user";
  /** Structured fields. */
  data: Record<string, unknown> | null;
  /** What nodes have noted about it. */
  metadata: Record<string, unknown> | null;
  /** Whether it stays in the queue of its target after the target has run (`keep_message` of an edge). */
  keep: boolean;
  /** Whether its role stays as it is when it is passed on. */
  preserve_role: boolean;
  /** Whether it came over a `dynamic` edge, so that its target runs once for each part of it. */
  dynamic: boolean;
}

/** The models that workflows may use. */
export interface ModelList {
  /** Workflows may use any endpoint; the list has the providers that are known. */
  unrestricted: boolean;
  /** The endpoints. */
  models: ModelView[];
}

/** A model endpoint that workflows may use. */
export interface ModelView {
  /** The name of the provider. */
  provider: string;
  /** The address of the endpoint; empty for that of the provider. */
  base_url: string;
  /** Whether the operator has set a key for it, which workflows then need not name. */
  has_key: boolean;
}

/** A token with its secret. */
export interface NewToken {
  /** The id, which is no secret. */
  id: string;
  /** The name. */
  name: string;
  /** The role. */
  role: "viewer" | "operator" | "author" | "admin";
  /** The groups that it sees; null is all of them. */
  groups: string[] | null;
  /** When it was created. */
  created: string;
  /** When it expires; null if it does not. */
  expires: string | null;
  /** The id of the token that created it; empty for the command line. */
  created_by: string;
  /** Shown once; the server stores only a digest. */
  secret: string;
}

/** The row of one node. */
export interface NodeForecast {
  /** The id of the node. */
  node: string;
  /** The nodes around it, if it is in a subgraph or a loop agent. */
  path: string;
  /** Its innermost loop. */
  loop: string;
  /** How often it runs. */
  runs: Estimate;
  /** Its calls of models. */
  model_calls: Estimate;
  /** Its calls of tools. */
  tool_calls: Estimate;
  /** The tokens that it uses. */
  tokens: Estimate;
  /** A rule of thumb; None if the price of its model is not known. */
  cost_usd: number | null;
}

/** The messages that wait at a node. */
export interface NodeQueue {
  /** Its address in the run, such as `Writer[3]`. */
  address: string;
  /** The id of the node. */
  node_id: string;
  /** The messages, the oldest first. */
  messages: WaitingMessage[];
}

/** A step inwards: a round of a loop, or the inside of a node. Exactly one of `loop` and `node` is set. */
export interface PathStep {
  /** The entry of a loop of edges. */
  loop: string | null;
  /** A node with a graph inside, which has rounds if it repeats it. */
  node: string | null;
  /** The number of the round. */
  round: number;
  /** `2` or `2.1`, for a part of a dynamic edge. */
  part: string;
  /** From 2: which run of a body in this round. */
  repeat: number;
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

/** A text to draw. */
export interface PictureBody {
  /** The text of a workflow. */
  text: string;
  /** Values of variables. */
  variables?: Record<string, string | number | boolean | null>;
  /** The name of the file in diagnostics. */
  name?: string;
  /** `compact` draws smaller. */
  density?: "normal" | "compact";
  /** Keys of nodes with graphs inside that are drawn as single cards; keys of other nodes are ignored. */
  collapsed?: string[];
  /** The colours; `auto` follows what the reader of the picture prefers. */
  scheme?: "auto" | "light" | "dark";
}

/** An answer that is not given yet. */
export interface PreviewBody {
  /** The text. */
  text?: string | null;
  /** Structured fields. */
  data?: Record<string, JsonValue> | null;
  /** The address of the question; needed if there are several. */
  at?: string;
}

/** An error, as RFC 9457 defines it. Some problems have further members. */
export interface Problem {
  /** What went wrong, as a stable name for programs. */
  type: "urn:roundel:problem:bad-request" | "urn:roundel:problem:invalid-workflow" | "urn:roundel:problem:unauthenticated" | "urn:roundel:problem:forbidden" | "urn:roundel:problem:not-found" | "urn:roundel:problem:method-not-allowed" | "urn:roundel:problem:conflict" | "urn:roundel:problem:idempotency-conflict" | "urn:roundel:problem:stale" | "urn:roundel:problem:too-large" | "urn:roundel:problem:unsupported-media-type" | "urn:roundel:problem:misdirected" | "urn:roundel:problem:precondition-required" | "urn:roundel:problem:too-many-requests" | "urn:roundel:problem:internal-error" | "urn:roundel:problem:unavailable";
  /** The same for people; one title for each type. */
  title: string;
  /** The status code of the response. */
  status: number;
  /** What went wrong in this case. */
  detail?: string;
  /** `bad-request`: which parts of the request are not valid, at most 20. */
  errors?: {
    /** Where it is: `body`, `query`, `path` or `header`, and the names below it. */
    location: string[];
    /** What is wrong. */
    message: string;
  }[];
  /** `invalid-workflow`: the errors of the workflow. */
  diagnostics?: {
    /** The stable code, which the manual explains. */
    code: string;
    /** `error` or `warning`. */
    severity: string;
    /** The name of the text. */
    file: string;
    /** The line, from 1; 0 if it is about the whole text. */
    line: number;
    /** The column, from 1; 0 if it is about the whole line. */
    column: number;
    /** What is wrong. */
    message: string;
    /** What to do about it; may be empty. */
    hint: string;
  }[];
  /** `stale`: the current version of the workflow; null if it does not exist any more. */
  version?: number | null;
  /** `internal-error`: the id of the entry in the server's log. */
  reference?: string;
}

/** The progress that a function reports. */
export interface ProgressReported {
  /** the text that the function reports */
  text: string;
  /** the completed part, from 0 to 1. Omitted if the function does not report it */
  fraction?: number | null;
}

/** What to add to long-term memory: an entry, the output of a node of a run, or a text. */
export interface PromoteBody {
  /** The id of an entry of the group. */
  entry?: number | null;
  /** The id of a run, together with `at`. */
  run?: string | null;
  /** The address of a node of the run. */
  at?: string;
  /** A text. */
  text?: string;
}

/** What is certain about a loop each time that it is entered at one particular node. `prove` creates it. */
export interface Proof {
  /** The name of the loop. */
  id: string;
  /** The ids of its nodes. */
  nodes: string[];
  /** The guards that bound it. */
  bounded_by: Limit[];
  /** None if only the cap or a clock bounds it. */
  worst_case_rounds: number | null;
  /** The most rounds, after which a run is locked. */
  cap: number;
  /** The number of loops around it, including those around a subgraph that contains it. */
  depth: number;
  /** The rounds in a whole run: multiplied by those of the loops around it; None if one is not known. */
  worst_case_total: number | null;
}

/** What was deleted. */
export interface PurgedVersions {
  /** How many versions. */
  deleted: number;
}

/** A page of messages. */
export interface QuarantinePage {
  /** The messages of this page. */
  messages: QuarantinedView[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
}

/** A message that a node of a run returned. */
export interface QuarantinedView {
  /** The address of the node, such as `Writer[3]`. */
  address: string;
  /** The id of the node. */
  node: string;
  /** When it was returned. */
  time: string;
  /** The text. */
  content: string;
  /** What the node noted about it. */
  metadata: Record<string, unknown>;
  /** The confidence that the node gave, from 0 to 1. */
  confidence?: number | null;
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

/** The first question of a run, shortened; `/questions` has all of them complete. */
export interface QuestionSummary {
  /** The address of the node that asks, such as `Review[2]`. */
  address: string;
  /** The id of the node that asks. */
  node_id: string;
  /** The beginning of the question. */
  prompt: string;
  /** The tool call that a person has to approve; null for another question. */
  tool?: ToolCallView | null;
}

/** A question to a person. */
export interface QuestionView {
  /** The address of the node that asks, such as `Review[2]`. */
  address: string;
  /** The id of the node that asks. */
  node_id: string;
  /** The question. */
  prompt: string;
  /** The messages that the node has received. */
  inputs: Message[];
  /** The name and arguments of a tool call that a person has to approve. */
  tool: Record<string, unknown> | null;
  /** When it has to be answered; null if there is no such time. */
  deadline: string | null;
  /** The answer if nobody gives one by then: a text, or an object with the data of the answer; null if the node has none. */
  default: unknown;
}

/** A message in the queue of a human node. */
export interface QueuedInput {
  /** the node that sent it */
  source: string;
  /** its text */
  text: string;
}

/** A node, or a round of tools, that the next steps start, in this order. */
export interface ReadyNode {
  /** Its address in the run, such as `Writer[3]`. */
  address: string;
  /** The id of the node. */
  node_id: string;
  /** The type of the node. */
  type: string;
  /** Why it is ready. */
  why: string;
  /** The breakpoints that the run has reached here. */
  breakpoints: string[];
  /** What it will receive. */
  messages: WaitingMessage[];
  /** The calls of a round of tools. */
  calls: string[];
}

/** A reason. */
export interface ReasonBody {
  /** Why, for people. */
  reason?: string;
}

/** A rectangle. */
export interface Rect {
  /** The left edge. */
  x: number;
  /** The upper edge; y grows downwards. */
  y: number;
  /** Its width. */
  width: number;
  /** Its height. */
  height: number;
}

/** A frame: a loop, or a node with graphs inside. */
export interface Region {
  /** Unique in the drawing. */
  key: string;
  /** A loop, or a node with graphs inside. */
  kind: "loop" | "node";
  /** Whether its nodes run in rounds: a loop, a loop agent, a debate. */
  repeats: boolean;
  /** The name of the loop or of the node. */
  title: string;
  /** The bound of a loop; the type and the bound of a node. */
  captions: string[];
  /** The x of the title, which is beside the edges that enter at the top. */
  title_x: number;
  /** The key of the node at which the loop is entered. */
  entry: string;
  /** Where it is. */
  box: Rect;
  /** The key of the region that contains it; empty at the top. */
  parent: string;
  /** How many regions contain it. */
  depth: number;
  /** Errors and warnings about it. */
  problems: Diagnostic[];
}

/** What a replay found. */
export interface ReplayResult {
  /** The first difference; null if there is none. */
  difference: Difference | null;
}

/** The changes that a retry brings. */
export interface RetryBody {
  /** Another workflow: the name of a saved one, or a text. */
  workflow?: string | WorkflowText | null;
  /** Other limits. */
  limits?: Record<string, number | "lock" | "allow">;
  /** Other values of variables; they need `workflow`. */
  variables?: Record<string, string | number | boolean | null>;
  /** Replies of models, tools and people, as a script file has them, or its text. Tools without a result in it are called only if the role of the caller is author, and approvals are given by people. */
  script?: Record<string, JsonValue> | string | null;
  /** Whether a new run retries the items of lists that failed while the run went on. */
  failed_items?: boolean;
}

/** The figures of one round. */
export interface RoundView {
  /** Its address in the run, such as `Writer[3]`. */
  address: string;
  /** Its number, from 1. */
  number: number;
  /** The last score that a node of the round returned. */
  score: number | null;
  /** The tokens that it used. */
  tokens: number;
  /** What it cost; null if no price is known. */
  cost_usd: number | null;
  /** How new its texts were, from 0 to 1; null if there were none. */
  novelty: number | null;
  /** How long it took. */
  seconds: number;
  /** What its nodes returned, by address, if they were asked for; without those of loops inside it. */
  outputs: Record<string, string>;
  /** When it began. */
  started: string;
  /** When it ended; null if it is running. */
  ended: string | null;
  /** `running`, `completed`, `failed`, or `stopped` if the run ended before the round did. */
  status: "running" | "completed" | "failed" | "cancelled" | "stopped";
  /** How often nodes in it failed, without failures that an error edge took. */
  failures: number;
  /** The place beside other rounds of its loop that ran at the same time, from 0; always 0 for rounds that ran one after the other. */
  lane: number;
}

/** An input or an answer with structured fields. */
export interface RunInput {
  /** The text. */
  text?: string | null;
  /** Structured fields. */
  data?: Record<string, JsonValue> | null;
}

/** A page of runs. */
export interface RunList {
  /** The runs of this page. */
  runs: RunView[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
}

/** The result of a run so far. */
export interface RunOutput {
  /** The id of the run. */
  id: string;
  /** The status of the run. */
  status: "running" | "waiting" | "paused" | "suspended_locked" | "completed" | "failed" | "stopped";
  /** The text of its output. */
  output?: string;
  /** The structured fields of its output. */
  data?: JsonValue;
  /** How often each node has run. */
  nodes?: Record<string, number>;
  /** Each loop by name. */
  loops?: Record<string, LoopResult>;
  /** Calls, tokens and cost. */
  usage?: Record<string, number | null>;
  /** Why it failed. */
  error?: string | null;
  /** Why it is locked: `what`, `limit`, `address`, `evidence`. */
  lock?: Record<string, unknown> | null;
  /** Why it is paused: `reason`, `address`, `breakpoint`. */
  pause?: Record<string, string> | null;
  /** When the first open question has to be answered. */
  deadline?: string | null;
}

/** What a run executes, as it was started: the same for its whole life. */
export interface RunPlan {
  /** The name of the workflow. */
  workflow: string;
  /** Where everything is. */
  drawing: Drawing;
  /** What bounds each loop. */
  loops: Proof[];
  /** What a run takes, at worst and usually. */
  forecast: Forecast;
  /** How each `loop` node decides. */
  decisions: LoopRule[];
  /** The ids of nodes whose output is written by a model or a person. */
  speakers: string[];
  /** The limits of the whole run. */
  limits: Record<string, unknown>;
  /** Messages that are less new than this are repetitions, and trip the breaker; null if they do not. */
  novelty: number | null;
  /** So many of them. */
  window: number;
  /** The breaker trips at so many times the tokens of the forecast; null if it does not. */
  token_factor: number | null;
  /** The seconds of work after which the breaker trips; null if it does not. */
  time_limit: number | null;
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
  question?: QuestionShown | null;
  /** why the run is paused; omitted if it is not */
  pause?: PauseShown | null;
  /** why the run is locked; omitted if it is not */
  lock?: LockShown | null;
}

/** The state of a run, for a debugger. */
export interface RunState {
  /** The id of the run. */
  run_id: string;
  /** The name of the workflow. */
  workflow: string;
  /** The status of the run. */
  status: "completed" | "failed" | "paused" | "running" | "stopped" | "suspended_locked" | "waiting";
  /** The number of the last event. */
  seq: number;
  /** Why it is paused; empty if it is not. */
  reason: string;
  /** The address at which a breakpoint or a step paused it. */
  stopped_at: string;
  /** The breakpoint that paused it. */
  breakpoint: string;
  /** The loops that are running, outer ones first. */
  loops: LoopPosition[];
  /** What the next steps start, in this order. */
  ready: ReadyNode[];
  /** The nodes that wait for others. */
  blocked: BlockedNode[];
  /** The addresses of calls that a resumed run makes or awaits. */
  in_flight: string[];
  /** The messages that wait at nodes. */
  queues: NodeQueue[];
  /** The nearest one first. */
  guards: GuardState[];
  /** The breakpoints of the run. */
  breakpoints: BreakpointState[];
  /** The variables that expressions read, with secrets masked. */
  variables: Record<string, unknown>;
  /** The values that nodes share. */
  state: Record<string, unknown>;
  /** The questions that wait for a person. */
  questions: QuestionView[];
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

/** A run, as lists and pages show it. */
export interface RunView {
  /** The id of the run. */
  id: string;
  /** The name of the workflow. */
  workflow: string;
  /** `running`, `waiting`, `paused`, `suspended_locked`, `completed`, `failed` or `stopped`. */
  status: "running" | "waiting" | "paused" | "suspended_locked" | "completed" | "failed" | "stopped";
  /** When it was started. */
  created: string;
  /** When it last changed. */
  updated: string;
  /** The beginning of its input. */
  input: string;
  /** Its group; empty for the one without a name. */
  group: string;
  /** The id of the token that started it; empty for the command line. */
  started_by: string;
  /** The run that it was forked from. */
  parent: string;
  /** Where it was forked. */
  forked_at: string;
  /** The name of the saved workflow that it was started from; empty if its workflow was not saved. */
  saved_as: string;
  /** The version of that workflow. */
  workflow_version: string;
  /** Whether a process executes it now. */
  is_executed: boolean;
  /** Which rounds are left of it, if it was pruned. */
  pruned: string;
  /** The loops that are running, with their current rounds, at most 100. */
  loops: LoopView[];
  /** The newest score. */
  score?: number | null;
  /** The scores of the last rounds of one loop, at most 20, the oldest first: of the innermost running loop that has scores, else of the loop that had one last. */
  scores: number[];
  /** The score that ends this loop; null if no score does. */
  threshold?: number | null;
  /** The ids of nodes that work now, at most 5. */
  active: string[];
  /** How long it has worked until `updated`, without the time in which it waited. */
  work_seconds: number;
  /** Calls, tokens and cost so far. */
  usage: Record<string, unknown>;
  /** The limit that is nearest. */
  guard?: GuardView | null;
  /** Why it is locked: `what`, `limit`, `address`, `evidence`, and `text`, which says it in one sentence. */
  lock?: Record<string, unknown> | null;
  /** Why it is paused: `reason`, `address`, `breakpoint`. */
  pause?: Record<string, unknown> | null;
  /** The addresses of nodes that wait for a person, at most 100. */
  questions: string[];
  /** The first of these questions. */
  question?: QuestionSummary | null;
  /** When the first of these questions has to be answered. */
  deadline?: string | null;
  /** The beginning of its output, at most 500 characters; `/output` has all of it. */
  output: string;
  /** How many characters the whole output has. */
  output_length: number;
  /** Why it failed, at most 500 characters. */
  error?: string | null;
  /** The loops of a run that is over, in the order in which they were first entered. */
  results: LoopOutcome[];
}

/** How many runs there are, and what they cost. */
export interface RunsSummary {
  /** The number of runs in each status that occurs. */
  statuses: Record<string, number>;
  /** Runs that do nothing until somebody answers, unlocks or resumes them. */
  needs_person: number;
  /** Runs that are running. */
  running: number;
  /** The time from which on `created` and `cost_usd` count. */
  since: string;
  /** Runs that were created after this time. */
  created: number;
  /** What these have cost so far; null if no price is known. */
  cost_usd: number | null;
}

/** A text to save. */
export interface SaveBody {
  /** The text; it may have errors. */
  text: string;
  /** Without it, the description in the text counts. */
  description?: string | null;
}

/** What was saved, and what is wrong with it. */
export interface SaveResult {
  /** The name. */
  name: string;
  /** The group; empty for the one without a name. */
  group: string;
  /** The number of the version, which is its ETag. */
  version: number;
  /** When this version was saved. */
  updated: string;
  /** Who saved it. */
  author: string;
  /** What it is for. */
  description: string;
  /** It had errors when it was saved, and cannot be run as it is. */
  draft: boolean;
  /** How many errors it had when it was saved. */
  errors: number;
  /** Errors and warnings of the text. */
  diagnostics: DiagnosticView[];
}

/** A server, for pages and programs that work with it. */
export interface ServerView {
  /** The version of Roundel. */
  version: string;
  /** The engine that executes runs. */
  engine: string;
  /** The kind of store, without its location. */
  store: string;
  /** When the server was started. */
  started: string;
  /** The time of the server. */
  time: string;
  /** What the operator allows. */
  allowed: Allowed;
  /** The most runs that are executed at once, streams in all and of one caller, and bytes of a body that contains a text. */
  limits: Record<string, number>;
  /** The runs that it executes now. */
  active_runs: number;
  /** Whether it shows the demo, of which nothing is kept. */
  demo: boolean;
}

/** A one-time code, or a token. */
export interface SessionBody {
  /** A one-time code, as the server prints it at start. */
  code?: string | null;
  /** A token. */
  token?: string | null;
}

/** A run to start. */
export interface StartBody {
  /** The name of a saved workflow; or a text, which takes the role author. */
  workflow: string | WorkflowText;
  /** The input of the run. */
  input?: string | RunInput;
  /** Values of variables. */
  variables?: Record<string, string | number | boolean | null>;
  /** Limits to use instead of those of the workflow. */
  limits?: Record<string, number | "lock" | "allow">;
  /** Replies of models, tools and people, as a script file has them, or its text. Tools without a result in it are called only if the role of the caller is author, and approvals are given by people. */
  script?: Record<string, JsonValue> | string | null;
  /** The group of the run; without it, the first of the caller. */
  group?: string | null;
  /** Breakpoints to set before it begins. */
  breakpoints?: (string | BreakpointBody)[];
  /** Whether it is paused before its first node. */
  paused?: boolean;
  /** The model of agents that name none, as `provider:name`, which the policy has to allow; without it, the one that the operator has set for the server. */
  model?: string | null;
}

/** A run that was started. */
export interface StartedRun {
  /** The id of the run. */
  id: string;
  /** The status of the run. */
  status: "running" | "waiting" | "paused" | "suspended_locked" | "completed" | "failed" | "stopped";
}

/** How far to go. */
export interface StepBody {
  /** Whether to go to the next round of the loop, and not only to the next node. */
  round?: boolean;
}

/** The templates. */
export interface TemplateList {
  /** The templates. */
  templates: TemplateView[];
}

/** A workflow to begin with. */
export interface TemplateView {
  /** The name of the example. */
  name: string;
  /** A short title. */
  title: string;
  /** What it shows. */
  description: string;
  /** The text of the workflow. */
  text: string;
  /** The replies of models and people, for a run that costs nothing. */
  script: string;
  /** An input to try it with. */
  input: string;
  /** Its picture. */
  svg: string;
  /** The same as data, for pages that draw it in their own colours; null if it has no graph. */
  drawing: Drawing | null;
  /** Whether it can be run here as it is: some need Python functions, or files beside them. */
  ok: boolean;
}

/** A page of the text of a part. */
export interface TextPage {
  /** The name of the part. */
  piece: string;
  /** Where the page begins, in characters. */
  offset: number;
  /** The page. */
  text: string;
  /** The characters of the whole text. */
  length: number;
  /** The offset of the next page; null on the last one. */
  next: number | null;
}

/** A token to create. */
export interface TokenBody {
  /** A name for people. */
  name: string;
  /** The role; not above the caller's. */
  role: "viewer" | "operator" | "author" | "admin";
  /** The groups that it sees; null is all that the caller sees. */
  groups?: string[] | null;
  /** Seconds; null is as long as the caller's own token. */
  expires_in?: number | null;
}

/** A page of tokens. */
export interface TokenList {
  /** The tokens of this page. */
  tokens: TokenView[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
}

/** A token, without its secret. */
export interface TokenView {
  /** The id, which is no secret. */
  id: string;
  /** The name. */
  name: string;
  /** The role. */
  role: "viewer" | "operator" | "author" | "admin";
  /** The groups that it sees; null is all of them. */
  groups: string[] | null;
  /** When it was created. */
  created: string;
  /** When it expires; null if it does not. */
  expires: string | null;
  /** The id of the token that created it; empty for the command line. */
  created_by: string;
}

/** A tool call that a person has to approve. */
export interface ToolCallView {
  /** The name of the tool. */
  name: string;
  /** Its first arguments, with the beginnings of their texts. */
  arguments?: JsonValue;
}

/** The functions and servers that workflows may use. */
export interface ToolList {
  /** Workflows may use any function and any server. */
  unrestricted: boolean;
  /** Workflows may run code that models write. */
  python_code: boolean;
  /** Python functions. */
  functions: FunctionView[];
  /** MCP servers. */
  mcp: McpView[];
}

/** A tool call that needs approval. */
export interface ToolToApprove {
  /** the tool */
  name: string;
  /** the arguments */
  arguments: unknown;
}

/** A part of a workflow, as it is written there, and a message to try it on. */
export interface TryBody {
  /** What is tried. */
  kind: "condition" | "processor" | "score" | "template";
  /** It, as it is written in a workflow. */
  config: JsonValue;
  /** The text of the message. */
  text?: string;
  /** The structured fields of the message. */
  data?: Record<string, JsonValue> | null;
  /** The round that it is tried in. */
  round?: number;
  /** The variables that expressions read. */
  vars?: Record<string, JsonValue>;
}

/** What became of it. An error is part of the answer: the text that is tried may well be wrong. */
export interface TryResult {
  /** condition: a truth value. score: a number, or null if there is none. template: a text. processor: the text and the data of the message, or null if it is dropped. */
  result: unknown;
  /** Why it did not work; null if it did. */
  error: string | null;
}

/** Why a locked run may continue, and with which changes. */
export interface UnlockBody {
  /** Why the run may continue. */
  reason: string;
  /** The self-checks; all three are needed. */
  checks: ("cause_understood" | "cost_accepted" | "workflow_reviewed")[];
  /** Higher limits. */
  limits?: Record<string, number>;
  /** A text that replaces the last message. */
  message?: string | null;
  /** A note for the agent that runs next. */
  note?: string;
  /** A node outside of the loop: the run leaves the loop, and continues there. */
  exit?: string;
}

/** What a call used. Nodes report it with their outcome. */
export interface Usage {
  /** The number of calls of models. */
  model_calls: number;
  /** The number of calls of tools. */
  tool_calls: number;
  /** The tokens that models got. */
  input_tokens: number;
  /** The tokens of their answers. */
  output_tokens: number;
  /** What the calls cost, as far as that is known. */
  cost_usd: number;
  /** The number of model calls whose cost is not known: no price is known, or, if there are no tokens either, the provider reported no usage. */
  unpriced_calls: number;
  /** The model that answered, as `provider:name`. */
  model: string;
  /** The reply came from the cache. */
  cached: boolean;
  /** A script replied, so nothing was paid for. */
  scripted: boolean;
}

/** A variable of a workflow, for the form that starts it. */
export interface VariableView {
  /** The name of the variable. */
  name: string;
  /** Its value, if it is no secret. */
  value: unknown;
  /** Whether it is secret; then its value is null. */
  secret: boolean;
}

/** A page of versions. */
export interface VersionList {
  /** The versions of this page. */
  versions: WorkflowSummary[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
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
  work_seconds?: number | null;
  /** The id of its graph. */
  workflow?: string;
  /** The model of agents that name none, if one was chosen for the run. */
  model?: string;
  /** The text of its input. */
  input?: string;
  /** The text of its result. */
  output?: string;
  /** The structured fields of its result. */
  data?: Record<string, unknown> | null;
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
  progress?: RunProgress | null;
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
  data?: Record<string, unknown> | null;
  /** Who answered. */
  by?: string;
  /** Whether a person or the script answered. */
  via?: "person" | "script";
  /** What was decided; null if nobody answered in time. */
  decision?: "answered" | "approved" | "changed" | "rejected" | null;
  /** How the arguments of a tool call were changed. */
  changes?: Change[];
  /** Why a tool call was rejected. */
  reason?: string;
  /** How many seconds the answer took. */
  waited?: number | null;
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
  waits?: CallWaiting | null;
  /** The input tokens; null if they are not known. */
  input_tokens?: number | null;
  /** The output tokens; null if they are not known. */
  output_tokens?: number | null;
  /** What it cost; null if that is not known. */
  cost_usd?: number | null;
  /** Whether the answer came from the cache. */
  cached?: boolean;
  /** Whether a script answered. */
  scripted?: boolean;
  /** The time inside the provider; null if it is not known. */
  seconds?: number | null;
  /** The seconds of the last attempt until its first part, if the answer was streamed. */
  first_token?: number | null;
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
  position?: number | null;
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
  output?: string | null;
  /** The structured fields of that message. */
  data?: Record<string, unknown> | null;
  /** What the node says about this execution. */
  report?: Record<string, unknown> | null;
  /** How many messages it returned. */
  messages?: number;
  /** The score that it reports, or that is in its data. */
  score?: number | null;
  /** The port by which its messages left. */
  port?: string | null;
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
  attempts?: number | null;
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
  question?: ViewedQuestion | null;
  /** The last answer that it got. */
  answer?: string | null;
  /** What a model has written so far, while it streams. */
  streamed?: string;
  /** The attempt that the text belongs to. */
  attempt?: number;
  /** What it last reported about its progress, while it is in flight. */
  progress?: ProgressReported | null;
  /** While a call that is not of a model waits for its next attempt: why, and until when. */
  waits?: CallWaiting | null;
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
  kept?: number | null;
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
  unlocked?: ViewedUnlock | null;
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
  limit?: number | null;
  /** The guard that the limit follows from. */
  limit_by?: string;
  /** The guards that end it after a time. */
  clocks?: string[];
  /** Its rounds, in the order in which they began. */
  rounds?: ViewedRound[];
  /** How it was left; null while it runs. */
  exit?: ViewedExit | null;
  /** The round with the highest score, of those that have ended. */
  best?: number | null;
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
  tool?: ToolToApprove | null;
  /** The time by which it must be answered. */
  deadline?: string;
  /** The seconds until then. */
  timeout?: number | null;
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
  seconds?: number | null;
  /** How long it took, without the time in which the run did not work. */
  work_seconds?: number | null;
  /** The last score inside it. */
  score?: number | null;
  /** The round with the highest score by its end. */
  best?: number | null;
  /** What everything inside it has used. */
  usage?: RunUsage;
  /** Whether the cost of a call inside it is known. */
  priced?: boolean;
  /** How many times a node inside it failed. */
  failures?: number;
  /** The beginning of the element that it is about. */
  element?: string;
  /** How many elements there are. */
  elements?: number | null;
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
  result?: string | null;
  /** Whether the tool was called. */
  called?: boolean;
  /** The time inside the tool; null if it is not known. */
  seconds?: number | null;
  /** How many seconds a person took to decide about it; null if nobody was asked. */
  waited?: number | null;
  /** What a person decided about it. */
  decision?: "answered" | "approved" | "changed" | "rejected" | null;
  /** The attempts before the last one. */
  attempts?: Attempt[];
  /** While it waits for its next attempt: why, and until when. */
  waits?: CallWaiting | null;
  /** What it last reported about its progress, while it is in flight. */
  progress?: ProgressReported | null;
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

/** A message in the queue of a node. */
export interface WaitingMessage {
  /** Its number in the queue, from 0. */
  position: number;
  /** Changes with its content; an edit names it, so that two people do not overwrite each other. */
  version: string;
  /** `user`, `assistant` or `system`. */
  role: string;
  /** The id of the node that sent it. */
  source: string;
  /** Its text. */
  text: string;
  /** Its structured fields. */
  data: Record<string, unknown> | null;
  /** Whether it stays in the queue for later runs of the node. */
  keep: boolean;
}

/** A page of saved workflows. */
export interface WorkflowList {
  /** The workflows of this page. */
  workflows: WorkflowSummary[];
  /** The cursor of the next page; null on the last one. */
  next?: string | null;
}

/** A saved workflow, as lists show it. */
export interface WorkflowSummary {
  /** The name. */
  name: string;
  /** The group; empty for the one without a name. */
  group: string;
  /** The number of the version, which is its ETag. */
  version: number;
  /** When this version was saved. */
  updated: string;
  /** Who saved it. */
  author: string;
  /** What it is for. */
  description: string;
  /** It had errors when it was saved, and cannot be run as it is. */
  draft: boolean;
  /** How many errors it had when it was saved. */
  errors: number;
}

/** A workflow that need not be saved. */
export interface WorkflowText {
  /** The text of the workflow. */
  text: string;
}

/** A saved workflow with its text. */
export interface WorkflowView {
  /** The name. */
  name: string;
  /** The group; empty for the one without a name. */
  group: string;
  /** The number of the version, which is its ETag. */
  version: number;
  /** When this version was saved. */
  updated: string;
  /** Who saved it. */
  author: string;
  /** What it is for. */
  description: string;
  /** It had errors when it was saved, and cannot be run as it is. */
  draft: boolean;
  /** How many errors it had when it was saved. */
  errors: number;
  /** The text. */
  text: string;
}
