"""`debate`: participants answer each other, round after round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.nodes.conducted import prepare_composite
from roundel.nodes.consensus import Consensus
from roundel.nodes.debate_conductor import DebateTurns, Pair
from roundel.nodes.participant import Participant, check_participants
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report, did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.graph import Graph
from roundel.workflow.node_type import NodeType


class JudgedConsensus(Consensus, frozen=True, omit_defaults=True):
    """Consensus with the node that is asked for it, if one is."""

    judge: Participant | None = None

    @staticmethod
    def __describe__() -> Description:
        return replace(Consensus.__describe__(), name="judged_consensus")


class Config(Struct, frozen=True, omit_defaults=True):
    participants: tuple[Participant, ...] = ()
    agent_pairs: tuple[tuple[str, ...], ...] = ()
    """Who answers whom, in the order of a round; without them each participant answers the one before."""
    max_rounds: Annotated[int, Meta(ge=1)] = 3
    exit_condition: Literal["max_rounds", "consensus"] = "max_rounds"
    consensus: JudgedConsensus = JudgedConsensus()

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "participants": Field(
                    en=(
                        "Participants",
                        "The nodes that take part, each with an id of its own; two at least.",
                    ),
                    zh=("参与者", "参与的节点，各有自己的 id，至少两个。"),
                    required=True,
                ),
                "agent_pairs": Field(
                    en=(
                        "Pairs",
                        "Who answers whom, in the order of a round: `[[Ada, Bo], [Bo, Ada]]`. If not set, "
                        "each "
                        "participant answers the one before.",
                    ),
                    zh=(
                        "配对",
                        "谁回应谁，按一轮中的顺序：`[[Ada, Bo], [Bo, Ada]]`。不填则每个参与者回应前一个。",
                    ),
                ),
                "max_rounds": Field(
                    en=("Rounds", "How many rounds there are at most."),
                    zh=("最多轮次", "辩论最多进行的轮次。"),
                    unit="rounds",
                ),
                "exit_condition": Field(
                    en=("Exit condition", "Whether consensus ends the debate too, before the last round."),
                    zh=("退出条件", "达成共识时是否也提前结束辩论。"),
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
            },
        )

    __hints__: ClassVar[dict[str, str]] = {
        "judge": "it belongs to the consensus: `consensus: {method: judge, judge: …}`"
    }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(participant.id for participant in self.participants)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        if self.agent_pairs:
            return tuple((first, second) for first, second in self.agent_pairs)
        names = self.names
        return tuple((name, names[place - 1]) for place, name in enumerate(names))

    @property
    def exit_consensus(self) -> JudgedConsensus | None:
        """The consensus that ends the debate, if one does."""
        return self.consensus if self.exit_condition == "consensus" else None

    @property
    def judge(self) -> Participant | None:
        """Who is asked after each round."""
        return self.consensus.judge if self.exit_consensus and self.consensus.method == "judge" else None

    def __check__(self, at: Located, report: Report) -> bool:
        sound = check_participants(self.participants, 2, "a debate", at, report)
        sound = self._check_pairs(at, report) and sound
        sound = self._check_judge(child(at, "consensus"), report) and sound
        if sound:
            self._warn_of_mistakes(at, report)
        return sound

    def _check_pairs(self, at: Located, report: Report) -> bool:
        places = child(at, "agent_pairs").value if self.agent_pairs else []
        assert isinstance(places, list)
        names = dict.fromkeys(self.names)
        pairs = zip(self.agent_pairs, places, strict=True)
        checks = [_check_pair(pair, names, place, report) for pair, place in pairs]
        return all(checks)

    def _check_judge(self, at: Located, report: Report) -> bool:
        judge, method = self.consensus.judge, self.consensus.method
        if judge is None and method == "judge":
            message = "a judge is to say whether there is consensus, and there is none"
            report.error("no-judge", message, at, "name one: `judge: {id: Judge, type: agent}`")
            return False
        if judge is not None and judge.id in self.names:
            message = f"there is already a participant '{judge.id}'"
            report.error("duplicate-id", message, child(at, "judge"), "give the judge an id of its own")
            return False
        if judge is not None and method != "judge":
            message = f"'judge' has no effect with the method {method}"
            report.warning("without-effect", message, child(at, "judge"), "write `method: judge`")
        return True

    def _warn_of_mistakes(self, at: Located, report: Report) -> None:
        """Of what is probably a mistake."""
        speakers = {first for first, _ in self.pairs}
        for silent in (one for one in self.participants if one.id not in speakers):
            hint = f"add a pair [{silent.id}, …], or leave it out"
            place = (silent.graph.at.line, silent.graph.at.column)
            report.warning("never-runs", f"'{silent.id}' never speaks: no pair begins with it", place, hint)
        consensus = child(at, "consensus")
        if self.exit_consensus is not None:
            self._warn_unreachable_consensus(len(speakers), consensus, report)
        elif consensus is not at and consensus.value is not None:
            message = "'consensus' has no effect without 'exit_condition: consensus'"
            report.warning("without-effect", message, consensus)

    def _warn_unreachable_consensus(self, speakers: int, at: Located, report: Report) -> None:
        config, why = self.consensus, ""
        if config.stable_for > self.max_rounds:
            why = f"it has to hold for {config.stable_for} rounds, and there are {self.max_rounds}"
        elif config.method == "phrase" and speakers < 2:
            why = "it takes two who speak, and there is one"
        if why:
            report.warning("no-consensus", f"there can be no consensus: {why}", at)


def _check_pair(pair: tuple[str, ...], names: Collection[str], at: Located, report: Report) -> bool:
    if len(pair) != 2 or pair[0] == pair[1]:
        given = f"[{', '.join(pair[:5])}{', …' if len(pair) > 5 else ''}]"
        message = f"a pair is two participants, the first answers the second; this is {given}"
        report.error("bad-pair", message, at, "write [who answers, whom]")
        return False
    assert isinstance(at.value, list)
    named = zip(pair, at.value, strict=True)
    unknown = [(name, place) for name, place in named if names and name not in names]
    for name, place in unknown:
        hint = did_you_mean(name, names) or f"participants: {', '.join(list(names)[:12])}"
        report.error("unknown-node", f"the pair names '{name}', who does not take part", place, hint)
    return not unknown


def _bodies(config: Config) -> tuple[Graph, ...]:
    judge = (config.judge.graph,) if config.judge is not None else ()
    return (*(participant.graph for participant in config.participants), *judge)


def _turns(config: Config) -> tuple[int, ...]:
    turn_counts = Counter(first for first, _ in config.pairs)
    judge = (config.max_rounds,) if config.judge is not None else ()
    return (*(turn_counts[name] * config.max_rounds for name in config.names), *judge)


def _conduct(config: Config) -> DebateTurns:
    return DebateTurns(config.names, config.pairs, config.max_rounds, config.exit_consensus)


EXAMPLE = """
- id: Council
  type: debate
  config:
    participants:
      - {id: Ada, type: agent}
      - {id: Bo, type: agent}
    max_rounds: 4
    exit_condition: consensus
"""

NODE = NodeType(
    "debate",
    Config,
    "Lets participants answer each other, for some rounds or until they agree.",
    prepare_composite,
    title="Debate",
    zh=("辩论", "参与者相互回应，进行若干轮或直到达成共识。"),
    example=EXAMPLE,
    bodies=_bodies,
    conduct=_conduct,
    turns=_turns,
    rounds=lambda config: config.max_rounds,
    loops=True,
)
