/// <reference types="node" />
// The model of the page makes the same of recorded events as the server (tests/conformance/events).
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunUsage } from "../api/events";
import type { IdleTime, ViewedExecution, ViewedLoop, ViewSnapshot } from "../api/view";
import type { RunEvent } from "./events";
import { type Execution, type LoopEntry, type Round, RunModel } from "./run_model";

const FOLDER = join(import.meta.dirname, "../../../tests/conformance/events");
const NAMES = readdirSync(FOLDER).flatMap((name) => (name.endsWith(".jsonl") ? [name.slice(0, -".jsonl".length)] : []));
const read = (name: string) => readFileSync(join(FOLDER, name), "utf8");

/** What the page does not keep of a part of the view. A field that is in neither is compared. */
const RUN = ["cause", "by", "is_pruned", "ended", "work_seconds", "model", "data", "failed_at", "answers"];
const LOOP = ["entry", "path", "limit", "limit_by", "clocks", "lanes", "usage"];
const ROUND = ["seconds", "work_seconds", "best"];
const EXECUTION = ["type", "speaks", "path", "part", "messages", "score", "port", "inside", "origin", "cause", "calls", "waits"];
const TOOL = ["id", "called", "seconds", "waited", "decision", "attempts", "waits", "progress"];
const QUESTION = ["input", "timeout"];
const LOCK = ["node_id"];
const IDLE = ["cause", "breakpoint", "questions"];
const EDIT = ["before", "by", "cause", "position"];
const WARNING = ["code", "node_id"];

/** Without these fields, and without what the JSON of the view leaves out: defaults. */
function kept(part: object, without: readonly string[], defaults: Record<string, unknown> = {}): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(part)) {
    if (without.includes(field) || value === undefined || value === null) continue;
    const usual = defaults[field] ?? ({ string: "", number: 0, boolean: false } as Record<string, unknown>)[typeof value];
    if (value !== usual && !(Array.isArray(value) && value.length === 0)) found[field] = value;
  }
  return found;
}

const NONE: RunUsage = { model_calls: 0, tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, unpriced_calls: 0 };

function usage(used: RunUsage | undefined): RunUsage {
  const { cached_calls = 0, cancelled_calls = 0, ...rest } = used ?? NONE;
  return { ...rest, cached_calls, cancelled_calls };
}

const moment = (at: number | null) => (at === null ? undefined : new Date(at).toISOString());

/** What is compared of a view of the server. */
function expected(view: ViewSnapshot): unknown {
  // For the page, a node that ended without a round is no loop.
  const loops = (view.loops ?? []).filter((one) => one.rounds?.length);
  const entered = new Set(loops.map((one) => one.address));
  const execution = (one: ViewedExecution) => ({
    ...kept(one, EXECUTION),
    usage: usage(one.usage),
    tools: (one.tools ?? []).map((tool) => kept(tool, TOOL)),
    question: one.question && kept(one.question, QUESTION),
  });
  const loop = (one: ViewedLoop) => ({
    ...kept(one, LOOP),
    rounds: (one.rounds ?? []).map((round) => ({ ...kept({ ...round, inner: round.inner?.filter((inner) => entered.has(inner)) ?? [] }, ROUND), usage: usage(round.usage) })),
    exit: one.exit && kept(one.exit, ["seconds"]),
  });
  // The page shows a run that is over in one way, and one place of a run that waits.
  const idle = ({ status, address, questions, ...rest }: IdleTime) =>
    kept({ ...rest, status: status === "completed" || status === "failed" || status === "stopped" ? "over" : status, address: address ?? questions?.[0] }, IDLE);
  return {
    ...kept(view, [...RUN, "reason"], { status: "running" }),
    usage: usage(view.usage),
    executions: Object.fromEntries(Object.entries(view.executions ?? {}).map(([address, one]) => [address, execution(one)])),
    loops: loops.map(loop),
    questions: (view.questions ?? []).map((one) => kept(one, QUESTION)),
    locks: (view.locks ?? []).map(({ unlocked, ...one }) => ({ ...kept(one, LOCK), unlocked: unlocked && kept(unlocked, []) })),
    idle: (view.idle ?? []).map(idle),
    edits: (view.edits ?? []).map((one) => kept(one, EDIT)),
    warnings: (view.warnings ?? []).filter((one) => one.code !== "no_end").map((one) => kept(one, WARNING)),
  };
}

/** The same of the model of the page. */
function shown(model: RunModel): unknown {
  const execution = (one: Execution) => {
    const { models: _, warnings: _warnings, tools, question, usage: used, started, ended, ...rest } = one;
    return {
      ...kept({ ...rest, started: moment(started), ended: moment(ended) }, EXECUTION),
      usage: usage(used),
      tools: tools.map((tool) => kept({ ...tool, started: moment(tool.started), ended: moment(tool.ended) }, TOOL)),
      question: question === null ? undefined : kept({ ...question, asked: moment(question.asked) }, QUESTION),
    };
  };
  const round = ({ stem: _, loop: _loop, isOpen: _open, failed: _failed, usage: used, ...one }: Round) => ({
    ...kept({ ...one, started: moment(one.started), ended: moment(one.ended) }, ROUND),
    usage: usage(used),
  });
  const loop = ({ stem, exit, rounds, ...one }: LoopEntry) => ({
    ...kept({ ...one, address: stem }, LOOP),
    rounds: rounds.map(round),
    exit: exit === null ? undefined : kept({ ...exit, at: undefined, ended: moment(exit.at) }, []),
  });
  return {
    ...kept(
      {
        seq: model.seq,
        status: model.status,
        started: moment(model.started),
        workflow: model.workflow,
        input: model.input,
        output: model.output,
        error: model.error,
        order: model.sequence,
        active: [...model.active],
      },
      RUN,
      { status: "running" },
    ),
    usage: usage(model.usage),
    executions: Object.fromEntries([...model.executions].map(([address, one]) => [address, execution(one)])),
    loops: model.order.map((stem) => loop(model.loops.get(stem) as LoopEntry)),
    questions: model.questions.map((one) => kept({ ...one, asked: moment(one.asked) }, QUESTION)),
    locks: model.locks.map(({ at, unlocked, ...one }) => ({
      ...kept({ ...one, at: moment(at) }, LOCK),
      unlocked: unlocked === null ? undefined : unlock(unlocked),
    })),
    idle: model.idle.map(({ from, to, ...one }) => kept({ ...one, began: moment(from), ended: moment(to) }, IDLE)),
    edits: model.edits.map((one) => kept({ ...one, at: moment(one.at) }, EDIT)),
    warnings: model.warnings.map((one) => kept({ ...one, at: moment(one.at) }, WARNING)),
  };
}

function unlock({ at, by, reason, data }: NonNullable<RunModel["locks"][number]["unlocked"]>) {
  return kept({ at: moment(at), by, reason, changes: data.changes, note: data.note, exit: data.exit }, []);
}

describe("recorded events", () => {
  it.each(NAMES)("%s", (name) => {
    const events = read(`${name}.jsonl`).trimEnd().split("\n").map((line) => JSON.parse(line) as RunEvent);
    const model = new RunModel();
    for (const event of events) expect(model.apply([event])).toBe(true);
    const view = expected(JSON.parse(read(`${name}.view.json`)) as ViewSnapshot);
    expect(shown(model)).toEqual(view);
    // In one piece, as a page that comes later gets them.
    const whole = new RunModel();
    expect(whole.apply(events)).toBe(true);
    expect(shown(whole)).toEqual(view);
  });
});
