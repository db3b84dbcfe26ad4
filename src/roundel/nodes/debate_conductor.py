"""How a debate goes: one pair after the other, then whether they agree, then the next round."""

from __future__ import annotations

from typing import Any

from roundel.kernel.conduct import Move, Turn
from roundel.kernel.facts import Outcome
from roundel.nodes.conducted import ParticipantTurns
from roundel.nodes.consensus import Choice, Consensus, ballot, count_consecutive, has_consensus
from roundel.workflow.message import Message, Role

Pair = tuple[str, str]
"""Who answers, and whom."""
Events = tuple[tuple[str, dict[str, Any]], ...]


class DebateTurns(ParticipantTurns):
    def __init__(
        self, names: tuple[str, ...], pairs: tuple[Pair, ...], max_rounds: int, consensus: Consensus | None
    ) -> None:
        self.bodies = {name: body for body, name in enumerate(names)}
        self.judge = len(names)
        """The body behind those of the participants."""
        self.pairs = pairs
        self.max_rounds = max_rounds
        self.consensus = consensus
        self.topic: tuple[Message, ...] = ()
        self.transcript: list[Message] = []
        self.round_start = 0
        """How many messages there were before this round."""
        self.history: list[dict[str, Any]] = []
        self.latest: dict[str, Message] = {}
        """What each speaker said last in this round; nothing is an empty message."""
        self.round = 0
        self.pair_index = 0
        """Which of the pairs has its turn."""
        self.rounds_agreed = 0
        """For how many rounds there has been consensus."""

    def begin(self, inputs: tuple[Message, ...]) -> Move:
        self.topic = inputs
        return self._next_round()

    def turned(self, turn: Turn, messages: tuple[Message, ...]) -> Move:
        if turn.body == self.judge:
            return self._on_judgement(messages)
        events = self._record_answer(messages)
        self.pair_index += 1
        if self.pair_index < len(self.pairs):
            return Move((self._turn(),), events=events)
        return self._end_round(events)

    def broken(self, turn: Turn, messages: tuple[Message, ...]) -> Move:
        events = self._record_answer(messages) if turn.body != self.judge else ()
        return self._finish("break", [], events)

    def _next_round(self, events: Events = ()) -> Move:
        self.round += 1
        self.pair_index, self.round_start = 0, len(self.transcript)
        self.latest = {speaker: Message() for speaker, _ in self.pairs}
        return Move((self._turn(),), events=events)

    def _turn(self) -> Turn:
        speaker, opponent = self.pairs[self.pair_index]
        history = tuple(_as_seen_by(message, speaker) for message in self.transcript)
        inputs = (*self.topic, *history, *self._reminder(opponent))
        again = sum(1 for round_start, _ in self.pairs[: self.pair_index] if round_start == speaker)
        return Turn(self.bodies[speaker], inputs, self.round, again=again)

    def _reminder(self, opponent: str) -> tuple[Message, ...]:
        """Whom to answer, where that is not the one who spoke last."""
        speakers = [message.source for message in self.transcript]
        needs_reminder = opponent in speakers and speakers[-1] != opponent
        return (Message(f"Answer {opponent}."),) if needs_reminder else ()

    def _record_answer(self, messages: tuple[Message, ...]) -> Events:
        if not messages:
            return ()
        answer, speaker = messages[-1], self.pairs[self.pair_index][0]
        metadata = {**(answer.metadata or {}), "source": speaker}
        self.latest[speaker] = Message(answer.content, "user", answer.data, metadata)
        self.transcript.append(self.latest[speaker])
        self.history.append({"agent": speaker, "content": answer.text, "round": self.round})
        return (("debate_round", {"round": self.round, "agent": speaker, "content": answer.text}),)

    def _end_round(self, events: Events) -> Move:
        if self.consensus is None:
            return self._continue_or_finish(False, events)
        if self.consensus.method != "judge":
            return self._continue_or_finish(self.decide(has_consensus, self.consensus, self.latest), events)
        if self.round_start == len(self.transcript):
            return self._continue_or_finish(False, events)
        inputs = (*self.transcript[self.round_start :], Message(self.consensus.question))
        return Move((Turn(self.judge, inputs, self.round),), events=events)

    def _on_judgement(self, messages: tuple[Message, ...]) -> Move:
        judgement = messages[-1] if messages else Message()
        choice = self.decide(_read_choice, judgement)
        if choice != "abstain":
            return self._continue_or_finish(choice == "approve", ())
        text = f"The judge said neither yes nor no, which counts as no: {judgement.text[:80]!r}"
        return self._continue_or_finish(False, (("warning", {"message": text}),))

    def _continue_or_finish(self, agree: bool, events: Events) -> Move:
        self.rounds_agreed = count_consecutive(self.rounds_agreed, agree)
        held = ["max_rounds_reached"] if self.round >= self.max_rounds else []
        if self.consensus is not None and self.rounds_agreed >= self.consensus.stable_for:
            held.append("consensus_reached")
        return self._finish(held[0], held, events) if held else self._next_round(events)

    def _finish(self, reason: str, held: list[str], events: Events) -> Move:
        last = self.transcript[-1] if self.transcript else Message()
        report = {"total_rounds": self.round, "exit_reason": reason, "held": held}
        data = {**(last.data or {}), "debate_history": self.history, **report}
        outcome = Outcome((Message(last.content, "assistant", data),), report=report, reason=reason)
        return Move(outcome=outcome, events=events)


def _read_choice(judgement: Message) -> Choice:
    return ballot(judgement.text, data=judgement.data).choice


def _as_seen_by(message: Message, by: str) -> Message:
    role: Role = "assistant" if message.source == by else "user"
    return Message(message.content, role, message.data, message.metadata)
