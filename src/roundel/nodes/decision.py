"""Whether a loop goes on: a function of the settings, of this round, and of what is known of those before.

The conditions are asked in a fixed order, and the first that holds is the reason; `held` names all of them,
so that a score that is reached in the last round is not lost behind the end of the rounds.

- A missing score is no score: it is not 0, meets no threshold and starts no regression.
- A gain is a score above the one of the last gain, by at least `min_delta`. Patience counts from the
  first score on; a round without one is a round without gain.
- A fall is measured from the last score that there was.
- The round is the loop's own. A given `iteration` beyond it wins, and the loop counts on from there, so that
  one workflow continues the count of another; one that is not beyond it changes nothing. So the round never
  falls behind the loop's own, which is what the bound of the proof rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from roundel.nodes.consensus import count_consecutive
from roundel.nodes.score import Number, as_number, score_from_fields

if TYPE_CHECKING:
    from roundel.nodes.loop import Config


MAX_ROUND = 2**53 - 1
"""The largest whole number that every reader of JSON keeps as it is."""


class ScoreHistory(Struct, frozen=True, omit_defaults=True):
    """What earlier rounds leave behind: as much after a thousand as after one."""

    best_round: int | None = None
    best_score: Number | None = None
    last_score: Number | None = None
    gained: Number | None = None
    """The score of the last gain."""
    without_gain: int = 0
    agreed: int = 0
    """For how many rounds there has been consensus."""
    ahead: int = 0
    """By how many rounds a given iteration has put the count ahead of the loop's own round."""


class Regression(Struct, frozen=True):
    score: Number
    previous: Number
    fall: Number
    round: int

    def fields(self) -> dict[str, Any]:
        return {"score": self.score, "previous": self.previous, "fall": self.fall, "round": self.round}


class LoopDecision(Struct, frozen=True):
    current_round: int
    score: Number | None
    held: tuple[str, ...]
    """Every condition that holds, in the order in which they are asked."""
    regression: Regression | None
    history: ScoreHistory
    """For the next round."""

    @property
    def should_exit(self) -> bool:
        return bool(self.held)

    @property
    def exit_reason(self) -> str:
        return self.held[0] if self.held else ""

    def fields(self, timestamp: str) -> dict[str, Any]:
        return {
            "should_exit": self.should_exit,
            "exit_reason": self.exit_reason,
            "current_round": self.current_round,
            "timestamp": timestamp,
            "score": self.score,
            "best_round": self.history.best_round,
            "best_score": self.history.best_score,
            "held": list(self.held),
        }


def decide_round(
    config: Config, input: Mapping[str, Any], history: ScoreHistory | None = None, own_round: int = 1
) -> LoopDecision:
    """`own` is the loop's own round. `input` may hold `iteration`, `score` and `consensus` (whether there is
    one in this round)."""
    before = history or ScoreHistory()
    round = count_round(own_round, (input.get("iteration"),), before)
    score = score_from_fields(input)
    after = _update_history(config, before, round, score, input.get("consensus") is True, round - own_round)
    held = tuple(name for name, holds in _conditions(config, round, score, after) if holds)
    return LoopDecision(round, score, held, _regression(config, before, round, score), after)


def count_round(own_round: int, given: Iterable[object], history: ScoreHistory) -> int:
    """The round that counts: the loop's own, or the largest iteration that was given."""
    return max(own_round + history.ahead, *map(_parse_iteration, given), 1)


def _parse_iteration(given: object) -> int:
    """A whole number of at least 1 as it is, also as 5.0; 0 for all else: text, true, a fraction, NaN."""
    whole = None if isinstance(given, str) else as_number(given)
    return min(int(whole), MAX_ROUND) if whole is not None and whole >= 1 and whole == int(whole) else 0


def _conditions(
    config: Config, round: int, score: Number | None, after: ScoreHistory
) -> Iterator[tuple[str, bool]]:
    wanted, patience = config.exit_on_score or 0, config.patience
    yield "max_rounds_reached", round >= config.max_rounds
    yield "score_threshold_reached", score is not None and 0 < wanted <= score
    yield "consensus_reached", after.agreed >= config.consensus.stable_for
    yield "plateau_reached", patience is not None and after.without_gain >= patience


def _update_history(
    config: Config, before: ScoreHistory, round: int, score: Number | None, agreed: bool, ahead: int
) -> ScoreHistory:
    gain = score is not None and _is_gain(score, before.gained, config.min_delta)
    better = score is not None and (before.best_score is None or score > before.best_score)
    waiting = before.without_gain + (before.gained is not None)
    asked = config.exit_condition == "consensus"
    return ScoreHistory(
        round if better else before.best_round,
        score if better else before.best_score,
        before.last_score if score is None else score,
        score if gain else before.gained,
        0 if gain else waiting,
        count_consecutive(before.agreed, agreed and asked),
        ahead,
    )


def _is_gain(score: Number, since: Number | None, least: float) -> bool:
    if since is None:
        return True
    gain = score - since
    return gain > 0 and (gain >= least or math.isclose(gain, least))


def _regression(config: Config, before: ScoreHistory, round: int, score: Number | None) -> Regression | None:
    previous = before.last_score
    if score is None or previous is None:
        return None
    fall = previous - score
    if fall <= config.regression or math.isclose(fall, config.regression):
        return None
    return Regression(score, previous, fall, round)
