// When a `loop` node leaves its loop: its options as switches, and back.
import type { Writes } from "../context";
import { isMapping, isVariable, readNumber } from "../values";

export const PRESET_ROUNDS = 3;
/** What the switches write at first. */
export const FIRST_SCORE = 90;
export const FIRST_PATIENCE = 2;

export interface Exits {
  /** Null if it is no number, such as a variable. */
  rounds: number | null;
  /** Null if no score ends the loop. */
  score: number | string | null;
  byConsensus: boolean;
  /** Null if there is no plateau. */
  plateau: { gain: number | string; rounds: number | string } | null;
}

export function readExits(config: unknown): Exits {
  const value = isMapping(config) ? config : {};
  const { max_rounds: rounds = PRESET_ROUNDS, exit_on_score: score, patience, min_delta: gain } = value;
  return {
    rounds: typeof rounds === "number" ? rounds : null,
    // A score of 0 or less turns it off.
    score: isVariable(score) || (typeof score === "number" && score > 0) ? score : null,
    byConsensus: value.exit_condition === "consensus",
    plateau:
      typeof patience === "number" || isVariable(patience)
        ? { gain: typeof gain === "number" || isVariable(gain) ? gain : 0, rounds: patience }
        : null,
  };
}

/** Turns the score on or off. Off leaves no key behind, also where `0` had turned it off. */
export function writeScore(score: number | string | null): Writes {
  return [[["config", "exit_on_score"], score ?? undefined]];
}

export function writePlateau(plateau: Exits["plateau"]): Writes {
  return [
    [["config", "patience"], plateau?.rounds],
    // No gain at all is the default.
    [["config", "min_delta"], plateau === null || plateau.gain === 0 ? undefined : plateau.gain],
  ];
}

/** What is decided about a score, by the options alone. */
export function decideOn(score: number | null, exits: Exits): "exit" | "continue" {
  const wanted = typeof exits.score === "string" ? readNumber(exits.score) : exits.score;
  return score !== null && wanted !== null && Number.isFinite(wanted) && score >= wanted ? "exit" : "continue";
}

export type ScoreSource = { kind: "automatic" } | { kind: "cel"; expression: string } | { kind: "regex"; pattern: string };

export function readSource(value: unknown): ScoreSource | null {
  if (value === undefined || value === null) return { kind: "automatic" };
  if (typeof value === "string") return { kind: "cel", expression: value };
  if (isMapping(value) && typeof value.regex === "string") return { kind: "regex", pattern: value.regex };
  return null;
}

export function writeSource(source: ScoreSource): unknown {
  switch (source.kind) {
    case "automatic":
      return undefined;
    case "cel":
      return source.expression || undefined;
    case "regex":
      return source.pattern ? { regex: source.pattern } : undefined;
  }
}
