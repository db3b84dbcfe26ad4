"""`debate`: participants answer each other, round after round, until they agree or the rounds are used
up.

A round runs the pairs one after the other. Each speaker gets the topic and the whole transcript, with
its own words in the role `assistant`. After the last pair the controller determines whether the
participants agree (nodes/consensus.py): by words, or by running the judge, which gets the topic and the
whole transcript. Then the next round starts, or the debate ends: with its last round as text, since an
answer such as "I agree." does not tell on what, and with the whole history in its data.

`DebateController` decides what runs next; `Config` reads and checks the settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.kernel.composite import CompositeAction, Controller
from roundel.kernel.facts import Outcome
from roundel.kernel.payloads import DebateRound, EventData, Warned
from roundel.kernel.state import Iteration
from roundel.nodes.consensus import Choice, Consensus, count_consecutive, has_consensus, read_ballot
from roundel.nodes.participants import (
    Participant,
    ParticipantController,
    check_participants,
    prepare_composite,
)
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.graph import GraphDefinition
from roundel.workflow.message import Message, Role
from roundel.workflow.node_type import NodeType

Pair = tuple[str, str]
"""A participant that speaks, and the participant that it answers."""
Events = tuple[EventData, ...]
DebateOutput = Literal["round", "last"]
"""What a debate hands on: the answers of its last round, or the last one alone."""


class DebateController(ParticipantController):
    """Runs the pairs of a debate one after the other, round by round. The kernel creates one for each
    execution of the node through `NODE.controller`.

    There is never more than one iteration in flight: each speaker has to see what the one before
    said."""

    def __init__(
        self,
        names: tuple[str, ...],
        pairs: tuple[Pair, ...],
        max_rounds: int,
        consensus: Consensus | None,
        output: DebateOutput = "round",
    ) -> None:
        self.bodies = {name: body for body, name in enumerate(names)}
        self.judge = len(names)
        """The number of the judge's body, which follows those of the participants (`_bodies`)."""
        self.pairs = pairs
        self.max_rounds = max_rounds
        self.consensus = consensus
        self.output = output
        self.topic: tuple[Message, ...] = ()
        self.transcript: list[Message] = []
        """All answers so far, each with its speaker as source."""
        self.round_start = 0
        """The length of the transcript at the beginning of this round."""
        self.history: list[dict[str, Any]] = []
        """The transcript as plain data, for `debate_history` of the output."""
        self.latest: dict[str, Message] = {}
        """The last answer of each speaker in this round; an empty message before it has spoken. It is
        reset with each round: a speaker that says nothing must not agree by what it said in an earlier
        round."""
        self.round = 0
        self.pair_index = 0
        """The pair that is speaking, as an index into `pairs`."""
        self.rounds_agreed = 0
        """For how many rounds in a row there has been consensus."""

    def begin(self, inputs: tuple[Message, ...]) -> CompositeAction:
        self.topic = inputs
        return self._next_round()

    def on_iteration_end(self, iteration: Iteration, messages: tuple[Message, ...]) -> CompositeAction:
        if iteration.body == self.judge:
            return self._on_judgement(messages)
        events = self._record_answer(messages)
        self.pair_index += 1
        if self.pair_index < len(self.pairs):
            return CompositeAction((self._iteration(),), events=events)
        return self._end_round(events)

    def on_break(self, iteration: Iteration, messages: tuple[Message, ...], reason: str) -> CompositeAction:
        # The words of a judge are no answer of a participant, so they stay out of the transcript.
        events = self._record_answer(messages) if iteration.body != self.judge else ()
        return self._finish(reason or "break", [], events)

    def _next_round(self, events: Events = ()) -> CompositeAction:
        """Starts a round with its first pair."""
        self.round += 1
        self.pair_index, self.round_start = 0, len(self.transcript)
        self.latest = {speaker: Message() for speaker, _ in self.pairs}
        return CompositeAction((self._iteration(),), events=events)

    def _iteration(self) -> Iteration:
        speaker, opponent = self.pairs[self.pair_index]
        history = tuple(_as_seen_by(message, speaker) for message in self.transcript)
        inputs = (*self.topic, *history, *self._reminder(opponent))
        # A participant may speak several times in a round. The number of its turn makes the address
        # unique.
        repeat = sum(1 for earlier, _ in self.pairs[: self.pair_index] if earlier == speaker)
        return Iteration(self.bodies[speaker], inputs, self.round, repeat=repeat)

    def _reminder(self, opponent: str) -> tuple[Message, ...]:
        """Tells a speaker whom to answer, if that is not the participant that spoke last. Before the
        opponent has said anything there is nothing to answer."""
        speakers = [message.source for message in self.transcript]
        needs_reminder = opponent in speakers and speakers[-1] != opponent
        return (Message(f"Answer {opponent}."),) if needs_reminder else ()

    def _record_answer(self, messages: tuple[Message, ...]) -> Events:
        """Adds an answer to the transcript. A speaker without output, as after `continue`, is
        skipped."""
        if not messages:
            return ()
        answer, speaker = messages[-1], self.pairs[self.pair_index][0]
        metadata = {**(answer.metadata or {}), "source": speaker}
        self.latest[speaker] = Message(answer.content, "user", answer.data, metadata)
        self.transcript.append(self.latest[speaker])
        self.history.append({"agent": speaker, "content": answer.text, "round": self.round})
        return (DebateRound(self.round, speaker, answer.text),)

    def _end_round(self, events: Events) -> CompositeAction:
        """Determines whether the participants agree, by words or by starting the judge."""
        if self.consensus is None:
            return self._continue_or_finish(False, events)
        if self.consensus.method != "judge":
            return self._continue_or_finish(self.decide(has_consensus, self.consensus, self.latest), events)
        if self.round_start == len(self.transcript):  # nobody spoke, so there is nothing to judge
            return self._continue_or_finish(False, events)
        discussion = (*self.topic, *self.transcript)
        if self.semantics < 1:  # the judge saw only this round
            discussion = tuple(self.transcript[self.round_start :])
        inputs = (*discussion, Message(self.consensus.question))
        return CompositeAction((Iteration(self.judge, inputs, self.round),), events=events)

    def _on_judgement(self, messages: tuple[Message, ...]) -> CompositeAction:
        # Reading the judgement depends on patterns and Unicode tables, so the decision is stored
        # (decision 18).
        judgement = messages[-1] if messages else Message()
        choice = self.decide(_read_choice, judgement)
        if choice != "abstain":
            return self._continue_or_finish(choice == "approve", ())
        text = f"The judge said neither yes nor no, which counts as no: {judgement.text[:80]!r}"
        return self._continue_or_finish(False, (Warned(text, "judge_unclear"),))

    def _continue_or_finish(self, agree: bool, events: Events) -> CompositeAction:
        self.rounds_agreed = count_consecutive(self.rounds_agreed, agree)
        # The same order as in a `loop`: the end of the rounds is the reason, and `held` also names
        # consensus.
        held = ["max_rounds_reached"] if self.round >= self.max_rounds else []
        if self.consensus is not None and self.rounds_agreed >= self.consensus.stable_for:
            held.append("consensus_reached")
        return self._finish(held[0], held, events) if held else self._next_round(events)

    def _finish(self, reason: str, held: list[str], events: Events) -> CompositeAction:
        """Ends the debate, with the history of all answers in the data of its output."""
        last = self.transcript[-1] if self.transcript else Message()
        report = {"total_rounds": self.round, "exit_reason": reason, "held": held}
        data = {**(last.data or {}), "debate_history": self.history, **report}
        content = last.content if self.output == "last" or self.semantics < 1 else self._last_round()
        outcome = Outcome((Message(content, "assistant", data),), report=report, reason=reason)
        return CompositeAction(outcome=outcome, events=events)

    def _last_round(self) -> str:
        """The answers of the last round in which somebody spoke, each with its speaker."""
        if not self.history:
            return ""
        last = self.history[-1]["round"]
        turns = [answer for answer in self.history if answer["round"] == last]
        return "\n".join(f"{answer['agent']}: {answer['content']}" for answer in turns)


def _read_choice(judgement: Message) -> Choice:
    return read_ballot(judgement.text, data=judgement.data).choice


def _as_seen_by(message: Message, by: str) -> Message:
    """An answer in the role that it has for one speaker: its own words are `assistant`, all others
    `user`."""
    role: Role = "assistant" if message.source == by else "user"
    return Message(message.content, role, message.data, message.metadata)


class JudgedConsensus(Consensus, frozen=True, omit_defaults=True):
    """Consensus that a node can decide about. Only a debate has bodies in which a judge can run."""

    judge: Participant | None = None

    @staticmethod
    def __describe__() -> Description:
        return replace(Consensus.__describe__(), name="judged_consensus")


class Config(Struct, frozen=True, omit_defaults=True):
    participants: tuple[Participant, ...] = ()
    agent_pairs: tuple[tuple[str, ...], ...] = ()
    """Pairs of a speaker and the participant that it answers, in the order of a round; without them each
    participant answers the one before it, and the first one answers the last."""
    max_rounds: Annotated[int, Meta(ge=1)] = 3
    exit_condition: Literal["max_rounds", "consensus"] = "max_rounds"
    consensus: JudgedConsensus = JudgedConsensus()
    output: DebateOutput = "round"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "participants": Field(
                    en=(
                        "Participants",
                        "The participating nodes, each with a unique id, or ids of nodes of the graph; at "
                        "least two. If not set, the nodes of the graph that `agent_pairs` names.",
                    ),
                    zh=(
                        "参与者",
                        "参与的节点，各有自己的 id，或图中节点的 id，至少两个。"
                        "不填则为 `agent_pairs` 中的图节点。",
                    ),
                ),
                "agent_pairs": Field(
                    en=(
                        "Pairs",
                        "Who answers whom, in the order of a round: `[[Ada, Bo], [Bo, Ada]]`. If not "
                        "set, each participant answers the previous one.",
                    ),
                    zh=(
                        "配对",
                        "谁回应谁，按一轮中的顺序：`[[Ada, Bo], [Bo, Ada]]`。不填则每个参与者回应前一个。",
                    ),
                ),
                "max_rounds": Field(
                    en=("Rounds", "The maximum number of rounds."),
                    zh=("最多轮次", "辩论最多进行的轮次。"),
                    unit="rounds",
                ),
                "exit_condition": Field(
                    en=("Exit condition", "Whether consensus also ends the debate before the last round."),
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
                "output": Field(
                    en=("Output", "What the debate hands on."),
                    zh=("输出", "辩论传递的内容。"),
                    choices={
                        "round": (
                            "The last round, with the names of the speakers",
                            "最后一轮，附发言者的名字",
                        ),
                        "last": ("The last answer alone", "仅最后一个回答"),
                    },
                    see="debate.md#debate-output",
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
        """The consensus that ends the debate; None if only the rounds do."""
        return self.consensus if self.exit_condition == "consensus" else None

    @property
    def judge(self) -> Participant | None:
        """The participant that decides after each round; None without `method: judge`."""
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
            message = "the method is judge, but the consensus has no judge"
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
        """Warns of settings that have no effect or can never be met. They are legal, so the workflow
        runs."""
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
            why = f"it has to last for {config.stable_for} rounds, and there are {self.max_rounds}"
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
        hint = report.suggest(name, names) or f"participants: {', '.join(islice(names, 12))}"
        report.error("unknown-node", f"the pair names '{name}', who does not take part", place, hint)
    return not unknown


def _complete(at: Located, nodes: Mapping[str, Located]) -> Located:
    """Adds the nodes of the graph that `agent_pairs` names to the participants."""
    pairs, given = child(at, "agent_pairs"), child(at, "participants")
    items = given.value if given is not at and given.value is not None else []
    if pairs is at or not isinstance(pairs.value, list) or not isinstance(items, list):
        return at
    # An item is a node or the id of one; `child` returns the item itself if it has no key `id`.
    known = [child(item, "id").value for item in items]
    named = [name for pair in pairs.value if isinstance(pair.value, list) for name in pair.value]
    added: dict[str, Located] = {}
    for name in named:
        if isinstance(name.value, str) and name.value in nodes and name.value not in known:
            added.setdefault(name.value, name)
    if not added:
        return at
    assert isinstance(at.value, dict)
    participants = Located([*items, *added.values()], given.line, given.column)
    return replace(at, value={**at.value, "participants": participants})


def _bodies(config: Config) -> tuple[GraphDefinition, ...]:
    judge = (config.judge.graph,) if config.judge is not None else ()
    return (*(participant.graph for participant in config.participants), *judge)


def _turns(config: Config) -> tuple[int, ...]:
    """How many times each body runs at most, for the forecast and the proof."""
    turn_counts = Counter(first for first, _ in config.pairs)
    judge = (config.max_rounds,) if config.judge is not None else ()
    return (*(turn_counts[name] * config.max_rounds for name in config.names), *judge)


def _make_controller(config: Config) -> Controller:
    return DebateController(
        config.names, config.pairs, config.max_rounds, config.exit_consensus, config.output
    )


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
    "Lets participants answer each other for a number of rounds or until they agree.",
    prepare_composite,
    events=(DebateRound.event, Warned.event),
    title="Debate",
    zh=("辩论", "参与者相互回应，进行若干轮或直到达成共识。"),
    example=EXAMPLE,
    complete=_complete,
    bodies=_bodies,
    controller=_make_controller,
    iterations=_turns,
    rounds=lambda config: config.max_rounds,
    with_rounds=lambda config, rounds: replace(config, max_rounds=rounds),
    loops=True,
    body_context=lambda _config: "speakers",
)
