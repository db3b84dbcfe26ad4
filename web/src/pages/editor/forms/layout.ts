// Which fields of an object are used often; the others stand under "More".
import type { FieldSpec, ObjectSpec } from "./catalogue";
import { hasNoEffect, valueOf } from "./values";

const OFTEN: Readonly<Record<string, readonly string[]>> = {
  workflow: ["vars", "models", "tools", "limits", "breaker", "memory"],
  graph: ["start", "end", "description", "limits", "loops", "breaker", "memory"],
  node: ["description"],
  model_profile: ["model", "base_url", "api_key", "params", "fallback"],
  tool: ["python", "mcp", "description"],
  mcp_server: ["command", "args", "env", "url"],
  limits: ["tokens", "cost_usd", "model_calls", "rounds", "seconds"],
  regex_extract: ["pattern", "group", "template", "on_no_match", "default_value"],
  regex_split: ["pattern", "group", "on_no_match"],
  embedding: ["model", "provider"],
  memory_use: ["name", "read", "write"],
  model_retry: ["enabled", "max_attempts"],
  consensus: ["method", "phrases", "quorum", "stable_for"],
  judged_consensus: ["method", "phrases", "quorum", "stable_for", "judge"],
  local_tooling: ["command", "args", "env"],
  remote_tooling: ["server", "headers"],
  file_source: ["path", "file_types"],
  agent: ["role", "prompt", "profile_id", "tools"],
  python: ["function", "ports"],
  loop: ["max_rounds", "exit_on_score", "exit_condition", "keep"],
  loop_timer: ["max_duration", "duration_unit", "message"],
  loop_counter: ["max_iterations", "message"],
};

export interface Parts {
  often: readonly FieldSpec[];
  more: readonly FieldSpec[];
}

/** Fields without an effect are shown only where they are written; fields in use are never hidden under "More". */
export function partsOf(spec: ObjectSpec, value: unknown, skip: readonly string[] = []): Parts {
  const isSet = (field: FieldSpec) => valueOf(field, value) !== undefined;
  const shown = spec.fields.filter((field) => !skip.includes(field.key) && (!hasNoEffect(field) || isSet(field)));
  const often = OFTEN[spec.name];
  if (!often || shown.length <= often.length + 1) return { often: shown, more: [] };
  const isOften = (field: FieldSpec) => often.includes(field.key) || field.required;
  return { often: shown.filter(isOften), more: shown.filter((field) => !isOften(field)) };
}
