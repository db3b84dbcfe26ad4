"""`loop`: decides whether a loop goes on. It calls nobody.

What it decides is `decide` (nodes/decision.py); here is how it is wired to the engine: what it reads from
messages, what it remembers from one round to the next, and what it hands on.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from roundel.kernel.commands import Call
from roundel.kernel.events import stamp
from roundel.kernel.facts import Outcome
from roundel.nodes.consensus import Consensus, reached
from roundel.nodes.decision import Decision, History, count_round, decide
from roundel.nodes.score import Score, find_score, scorer
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import Bound, NodeType

__all__ = ["NODE", "Config", "Decision", "History", "decide"]


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
    score_of = scorer(config.score)

    def behave(call: Call) -> Outcome:
        memory: Memory = call.state or Memory()
        heard = _heard(call.inputs)
        own = max(call.round, 1)  # outside of all loops the engine counts no rounds
        number = count_round(own, _iterations(heard), memory.history)
        found = find_score(score_of, heard, number)
        agreed = config.exit_condition == "consensus" and reached(config.consensus, _latest(heard))
        given = {"iteration": number, "score": found.score, "consensus": agreed}
        decision = decide(config, given, memory.history, own)
        said = heard[-1] if heard else Message()
        memory = _remembered(config, memory, decision, said)
        if decision.should_exit and memory.best is not None:
            said = memory.best
        return _outcome(decision, said, memory, stamp(services.now()), found.error)

    return behave


class Memory(Struct, frozen=True, omit_defaults=True):
    """What the node keeps for the next round."""

    history: History = History()
    best: Message | None = None
    """The message of the best round, if it is that which goes out."""


def _heard(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages of this round: a `context_window` keeps older ones too, and behind them its own words."""
    own = [at for at, message in enumerate(messages) if message.role == "assistant" and not message.source]
    return messages[own[-1] + 1 :] if own else messages


def _iterations(messages: tuple[Message, ...]) -> list[object]:
    return [message.data.get("iteration") for message in messages if message.data]


def _latest(messages: tuple[Message, ...]) -> dict[str, Message]:
    """What each participant said last."""
    return {message.source: message for message in messages}


def _remembered(config: Config, memory: Memory, decision: Decision, said: Message) -> Memory:
    before, history = memory.history, decision.history
    better = (history.best_round, history.best_score) != (before.best_round, before.best_score)
    return Memory(history, said if better and config.keep == "best" else memory.best)


def _outcome(decision: Decision, said: Message, memory: Memory, time: str, error: str) -> Outcome:
    fields = decision.fields(time)
    report = {**fields, "score_error": error} if error else fields
    metadata = {name: value for name, value in (said.metadata or {}).items() if name != "source"}
    regression = decision.regression
    return Outcome(
        (Message(said.content, "assistant", {**(said.data or {}), **fields}, metadata or None),),
        port="exit" if decision.should_exit else "continue",
        state=memory,
        report=report,
        reason=decision.exit_reason,
        events=(("score_regression", regression.fields()),) if regression else (),
    )


def _ports(_config: Any) -> tuple[str, ...]:
    return ("continue", "exit")


NODE = NodeType(
    "loop",
    Config,
    "Decides whether a loop goes on, by rounds, score or consensus.",
    prepare,
    ports=_ports,
    pure=True,
    guard=True,
    single=lambda _config: True,
    bound=lambda config: Bound(rounds=config.max_rounds, port="exit"),
    forgets=lambda _config: True,
    state=Memory,
)
