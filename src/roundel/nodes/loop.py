"""`loop`: decides after each round whether a loop continues. It calls no model, tool or function.

`decide_round` is the decision: a pure function of the settings, of this round and of the history of the
earlier ones. The rest of the module connects it to the engine: what the node reads from messages, what
it stores from one round to the next, and what it sends on.

The conditions are tested in a fixed order, and the first that is met is the reason. `held` names all of
them, so that a score that is reached in the last round is not hidden by the end of the rounds.

- A missing score is no score: it is not 0, meets no threshold and starts no regression.
- A gain is a score above that of the last gain, by at least `min_delta`. Patience counts from the first
  score on; a round without a score is a round without gain.
- A fall is measured from the last score that there was.
- The round is the loop's own. A given `iteration` beyond it wins, and the loop counts on from there, so
  that one workflow can continue the count of another; a smaller one changes nothing. So the count never
  falls behind the loop's own round, and the bound that the proof derives from `max_rounds` is valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.kernel.commands import Call
from roundel.kernel.events import stamp
from roundel.kernel.facts import Outcome
from roundel.kernel.payloads import ScoreRegression
from roundel.nodes.consensus import Consensus, count_consecutive, has_consensus
from roundel.nodes.score import Number, Score, as_number, find_score, make_scorer, score_from_fields
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import Bound, NodeType

MAX_ROUND = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""


class ScoreHistory(Struct, frozen=True, omit_defaults=True):
    """What a decision needs to know of earlier rounds. It has a constant size: it is part of the node's
    state, which snapshots store, so it must not grow with the number of rounds."""

    best_round: int | None = None
    best_score: Number | None = None
    last_score: Number | None = None
    gained: Number | None = None
    """The score of the last gain, from which the next gain is measured. It can be lower than
    `best_score`: small improvements below `min_delta` raise the best score but are no gain."""
    without_gain: int = 0
    """Rounds since the last gain; 0 until there is a first score."""
    agreed: int = 0
    """For how many rounds in a row there has been consensus."""
    ahead: int = 0
    """How many rounds a given `iteration` put the count ahead of the loop's own round."""


class Regression(Struct, frozen=True):
    """A fall of the score by more than `regression`, which is reported by an event."""

    score: Number
    previous: Number
    fall: Number
    round: int

    def fields(self) -> dict[str, Any]:
        return {"score": self.score, "previous": self.previous, "fall": self.fall, "round": self.round}


class LoopDecision(Struct, frozen=True):
    """What `decide_round` returns: the decision about one round, and the history for the next."""

    current_round: int
    score: Number | None
    held: tuple[str, ...]
    """Every condition that is met, in the order of `_conditions`; the loop ends if there is one."""
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
    """Decides whether a loop ends after a round. It is pure: the node calls it, and
    `loop_processor.py` applies the same rules in Python without a workflow.

    `own_round` is the loop's own round, from 1. `input` may have `iteration`, `score` and `consensus`
    (whether there is consensus in this round). Pass the `history` of the last decision to the next
    call."""
    before = history or ScoreHistory()
    round = count_round(own_round, (input.get("iteration"),), before)
    return decide_at(config, input, before, own_round, round)


def decide_at(
    config: Config, input: Mapping[str, Any], before: ScoreHistory, own_round: int, round: int
) -> LoopDecision:
    """The same for a round whose number is known."""
    score = score_from_fields(input)
    after = _update_history(config, before, round, score, input.get("consensus") is True, round - own_round)
    held = tuple(name for name, holds in _conditions(config, round, score, after) if holds)
    return LoopDecision(round, score, held, _regression(config, before, round, score), after)


def count_round(own_round: int, given: Iterable[object], history: ScoreHistory) -> int:
    """The round that counts: the loop's own, or the largest given iteration if that is larger. It is
    never less than the loop's own round, on which the proof of the bound relies."""
    return max(own_round + history.ahead, *map(parse_iteration, given), 1)


def parse_iteration(given: object) -> int:
    """A whole number of at least 1, also written as 5.0; 0 for anything else: text, true, a fraction,
    NaN."""
    whole = None if isinstance(given, str) else as_number(given)
    return min(int(whole), MAX_ROUND) if whole is not None and whole >= 1 and whole == int(whole) else 0


def _conditions(
    config: Config, round: int, score: Number | None, after: ScoreHistory
) -> Iterator[tuple[str, bool]]:
    """The conditions in their fixed order. The first that is met is the reason, so `max_rounds_reached`
    always wins: a workflow can rely on that reason whenever the rounds are used up."""
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
    waiting = before.without_gain + (before.gained is not None)  # patience starts with the first score
    ends_on_consensus = config.exit_condition == "consensus"
    return ScoreHistory(
        round if better else before.best_round,
        score if better else before.best_score,
        before.last_score if score is None else score,
        score if gain else before.gained,
        0 if gain else waiting,
        count_consecutive(before.agreed, agreed and ends_on_consensus),
        ahead,
    )


def _is_gain(score: Number, since: Number | None, least: float) -> bool:
    if since is None:
        return True
    gain = score - since
    # Decimal steps such as 0.1 are inexact in binary: 0.3 - 0.2 must count as a gain of 0.1.
    return gain > 0 and (gain >= least or math.isclose(gain, least))


def _regression(config: Config, before: ScoreHistory, round: int, score: Number | None) -> Regression | None:
    previous = before.last_score
    if score is None or previous is None:
        return None
    fall = previous - score
    if fall <= config.regression or math.isclose(fall, config.regression):
        return None
    return Regression(score, previous, fall, round)


class Config(Struct, frozen=True, omit_defaults=True):
    max_rounds: Annotated[int, Meta(ge=1)] = 3
    exit_on_score: float | None = None
    """Off when absent, 0 or below."""
    exit_condition: Literal["max_rounds", "consensus"] = "max_rounds"
    score: Score | None = None
    patience: Annotated[int, Meta(ge=1)] | None = None
    min_delta: Annotated[float, Meta(ge=0)] = 0
    keep: Literal["last", "best"] = "last"
    regression: Annotated[float, Meta(ge=0)] = 10
    consensus: Consensus = Consensus()
    debug: bool = False
    output: str = ""
    """The node of the loop whose last message the exit carries."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "max_rounds": Field(
                    en=("Rounds", "The maximum number of rounds."),
                    zh=("最多轮次", "循环最多执行的轮次。"),
                    unit="rounds",
                ),
                "exit_on_score": Field(
                    en=(
                        "Score to reach",
                        "The loop ends when the score reaches this value. 0 or less turns this off.",
                    ),
                    zh=("达标分数", "得分达到此值时结束循环；0 或更小表示关闭。"),
                ),
                "score": Field(
                    en=(
                        "Score",
                        "Where the score is: a CEL expression, or a pattern with one group. If not set, it "
                        "is `score` in "
                        "the data or in a JSON object of the text.",
                    ),
                    zh=(
                        "得分来源",
                        "得分的位置：CEL 表达式，或带一个分组的正则表达式。不填则取数据或文本中 JSON 对象的 "
                        "`score`。",
                    ),
                    see="loop.md#score-extraction",
                ),
                "patience": Field(
                    en=(
                        "Patience",
                        "The loop ends after this many consecutive rounds without an improvement.",
                    ),
                    zh=("耐心轮次", "连续多少轮没有提升时结束循环。"),
                    unit="rounds",
                ),
                "min_delta": Field(
                    en=(
                        "Least gain",
                        "How much higher than at the last improvement a score must be to "
                        "count as an improvement.",
                    ),
                    zh=("最小提升", "得分须比上一次提升高出多少，才算作提升。"),
                ),
                "keep": Field(
                    en=("Result", "Which round's message leaves the loop."),
                    zh=("保留结果", "以哪一轮的消息离开循环。"),
                    choices={
                        "last": ("The last round", "最后一轮"),
                        "best": ("The best round", "得分最高的一轮"),
                    },
                ),
                "output": Field(
                    en=(
                        "Output",
                        "The node of the loop whose last message leaves the loop. If not set, it is the "
                        "message that came in last.",
                    ),
                    zh=("输出节点", "循环中的一个节点，其最后一条消息离开循环；不填则为最后收到的消息。"),
                    see="loop.md#output-fields",
                ),
                "regression": Field(
                    en=("Regression", "If the score falls by more than this, Roundel emits an event."),
                    zh=("退步阈值", "得分下降超过此值时发出事件。"),
                ),
                "exit_condition": Field(
                    en=("Exit condition", "Whether consensus also ends the loop before the last round."),
                    zh=("退出条件", "达成共识时是否也提前结束循环。"),
                    choices={
                        "max_rounds": ("Rounds alone", "仅按轮次"),
                        "consensus": ("Rounds or consensus", "轮次或共识"),
                    },
                ),
                "consensus": Field(
                    en=("Consensus", "What counts as consensus, with `exit_condition: consensus`."),
                    zh=("共识", "`exit_condition: consensus` 时，何为共识。"),
                    see="debate.md#consensus",
                ),
                "debug": Field(
                    en=("Debug", "Whether every run pauses before this node in each round."),
                    zh=("调试", "每一轮中，运行都会在此节点之前暂停。"),
                    see="debugging.md#breakpoints",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        given = at.value if isinstance(at.value, dict) else {}
        for key, needs, missing in (
            ("consensus", "exit_condition: consensus", self.exit_condition != "consensus"),
            ("min_delta", "patience", self.patience is None),
        ):
            if missing and key in given and given[key].value is not None:
                report.warning("without-effect", f"'{key}' has no effect without '{needs}'", given[key])
        if self.consensus.method != "judge":
            return True
        message = "the consensus of a 'loop' cannot have the method 'judge': a loop calls nobody"
        hint = "use phrase or vote, or let an agent before the loop judge, and read its score"
        report.error("judge-in-loop", message, child(at, "consensus", "method"), hint)
        return False


def prepare(node: Node, services: Services) -> Behaviour:
    config: Config = node.config
    score_of = make_scorer(config.score)

    def behave(call: Call) -> Outcome:
        loop_state: LoopState = call.state or LoopState()
        round_messages = _round_messages(call.inputs)
        own_round = max(call.round, 1)  # the kernel counts rounds only inside of loops
        number = count_round(own_round, _iterations(round_messages), loop_state.history)
        found = find_score(score_of, round_messages, number)
        agreed = config.exit_condition == "consensus" and has_consensus(
            config.consensus, _latest_by_source(round_messages if call.heard is None else call.heard)
        )
        given = {"iteration": number, "score": found.score, "consensus": agreed}
        decision = decide_round(config, given, loop_state.history, own_round)
        message = round_messages[-1] if round_messages else Message()
        # Without `output`, or before that node has said anything, the exit carries what came in.
        result = call.carried or message
        loop_state = _update_state(config, loop_state, decision, result)
        kept = None
        if decision.should_exit:
            message = loop_state.best or result
            best_round = loop_state.history.best_round if loop_state.best else None
            # The node may count more rounds than the loop has had.
            kept = max(1, own_round - decision.current_round + (best_round or decision.current_round))
        outcome = _outcome(decision, message, loop_state, stamp(services.now()), found.error)
        return replace(outcome, kept=kept)

    return behave


class LoopState(Struct, frozen=True, omit_defaults=True):
    """The state of the node between two rounds. The kernel stores it and drops it when the loop is
    left."""

    history: ScoreHistory = ScoreHistory()
    best: Message | None = None
    """The message that the exit would carry after the best round, with `keep: best`; None otherwise, so
    that it is not stored."""


def _round_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages of this round. With a `context_window` the queue also has those of earlier rounds,
    each followed by the loop's own output, which has the role `assistant` and no source."""
    own_outputs = [
        at for at, message in enumerate(messages) if message.role == "assistant" and not message.source
    ]
    return messages[own_outputs[-1] + 1 :] if own_outputs else messages


def _iterations(messages: tuple[Message, ...]) -> list[object]:
    return [message.data.get("iteration") for message in messages if message.data]


def _latest_by_source(messages: tuple[Message, ...]) -> dict[str, Message]:
    """The last message of each participant: a later message with the same source replaces an earlier
    one."""
    return {message.source: message for message in messages}


def _update_state(
    config: Config, loop_state: LoopState, decision: LoopDecision, result: Message
) -> LoopState:
    before, history = loop_state.history, decision.history
    better = (history.best_round, history.best_score) != (before.best_round, before.best_score)
    return LoopState(history, result if better and config.keep == "best" else loop_state.best)


def _outcome(
    decision: LoopDecision, message: Message, loop_state: LoopState, time: str, error: str
) -> Outcome:
    # An expression that fails for a message is not an error of the node, since other messages may have
    # no score at all. It is reported with the decision.
    fields = decision.fields(time)
    report = {**fields, "score_error": error} if error else fields
    metadata = {name: value for name, value in (message.metadata or {}).items() if name != "source"}
    regression = decision.regression
    return Outcome(
        (Message(message.content, "assistant", {**(message.data or {}), **fields}, metadata or None),),
        port="exit" if decision.should_exit else "continue",
        state=loop_state,
        report=report,
        reason=decision.exit_reason,
        events=((ScoreRegression.event, regression.fields()),) if regression else (),
    )


def _ports(_config: Any) -> tuple[str, ...]:
    return ("continue", "exit")


def _least_speakers(config: Config) -> int | None:
    """How many speakers a consensus needs; None if none ends the loop."""
    if config.exit_condition != "consensus":
        return None
    return 2 if config.consensus.method == "phrase" else 1


EXAMPLE = """
- id: Gate
  type: loop
  config: {max_rounds: 5, exit_on_score: 90, keep: best}
"""

NODE = NodeType(
    "loop",
    Config,
    "Decides whether a loop continues, by rounds, score or consensus.",
    prepare,
    events=(ScoreRegression.event,),
    title="Loop",
    zh=("循环控制", "按轮次、得分或共识决定循环是否继续。"),
    port_titles={
        "continue": ("Another round follows", "继续下一轮"),
        "exit": ("The loop ends", "离开循环"),
    },
    example=EXAMPLE,
    ports=_ports,
    pure=True,
    guard=True,
    single=lambda _config: True,
    bound=lambda config: Bound(rounds=config.max_rounds, port="exit"),
    carries=lambda config: str(config.output),
    hears=_least_speakers,
    with_rounds=lambda config, rounds: replace(config, max_rounds=rounds),
    forgets=lambda _config: True,
    state=LoopState,
)
