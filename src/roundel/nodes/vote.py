"""`vote`: all participants vote at the same time, and the port depends on whether enough of them
approve.

A participant is a node of any type, such as an agent or a person. How a ballot is read from its message
is defined in nodes/consensus.py.

A vote hands on what was voted on, since the next node works with the draft and not with the tally. The tally
is in the data of the message, and in the event of the node's end.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from roundel.kernel.composite import CompositeAction
from roundel.kernel.facts import Outcome
from roundel.kernel.state import Iteration
from roundel.nodes.consensus import Ballot, VoteType, read_ballot
from roundel.nodes.participants import (
    Participant,
    ParticipantController,
    check_participants,
    prepare_composite,
)
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType

PORTS = ("approved", "rejected")
MAX_SCORE = 10
"""The highest score of `score_1_10`; shares are relative to it."""


class Config(Struct, frozen=True, omit_defaults=True):
    participants: tuple[Participant, ...] = ()
    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.67
    """The share that is required: of approvals among those who vote, or of the mean score in the
    highest."""
    vote_type: VoteType = "yes_no"
    question: str = ""
    """Sent to all participants, as a message behind the input."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "participants": Field(
                    en=("Participants", "The nodes that vote, each with a unique id; at least one."),
                    zh=("参与者", "参加投票的节点，各有自己的 id，至少一个。"),
                    required=True,
                ),
                "threshold": Field(
                    en=(
                        "Threshold",
                        "The required share of approvals, or of the highest score. Two of three are less "
                        "than 0.67.",
                    ),
                    zh=("通过比例", "赞成票（或得分占满分）须达到的比例。三分之二小于 0.67。"),
                ),
                "vote_type": Field(
                    en=("Kind of vote", "What each participant answers with."),
                    zh=("投票方式", "每个参与者给出什么。"),
                    choices={
                        "yes_no": ("Yes or no", "赞成或反对"),
                        "score_1_10": ("A score from 1 to 10", "1 到 10 分"),
                    },
                ),
                "question": Field(
                    en=("Question", "The question for all participants, as a message after the input."),
                    zh=("问题", "向所有参与者提出的问题，作为一条消息附在输入之后。"),
                    widget="textarea",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        return check_participants(self.participants, 1, "a vote", at, report)


class VoteController(ParticipantController):
    """Starts all participants at once and counts their ballots when the last one has ended. The kernel
    creates one for each execution of the node."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.subject = Message()
        """What is voted on: the last message of the input."""
        self.ballots: dict[int, Ballot] = {}
        """By the number of the participant, in the order of arrival; `_count_ballots` puts them in
        order."""

    def begin(self, inputs: tuple[Message, ...]) -> CompositeAction:
        self.subject = inputs[-1] if inputs else self.subject
        question = self.config.question
        question_messages = (*inputs, Message(question)) if question else inputs
        # Each participant has a body of its own, so its ordinals do not depend on which is faster, and
        # `parallel_index` is not needed.
        return CompositeAction(
            tuple(Iteration(body, question_messages, 1) for body in range(len(self.config.participants)))
        )

    def on_iteration_end(self, iteration: Iteration, messages: tuple[Message, ...]) -> CompositeAction:
        ballot_message = messages[-1] if messages else Message()
        self.ballots[iteration.body] = Ballot(
            *self.decide(_read_ballot, ballot_message, self.config.vote_type)
        )
        waiting = len(self.ballots) < len(self.config.participants)
        return CompositeAction() if waiting else CompositeAction(outcome=self._count_ballots())

    def on_break(
        self, _iteration: Iteration, _messages: tuple[Message, ...], _reason: str
    ) -> CompositeAction:
        raise AssertionError("a vote is no loop, so no node can break out of it")

    def _count_ballots(self) -> Outcome:
        """The result. Abstentions do not count; if all abstain, the vote is rejected."""
        participants = self.config.participants
        ballots = [self.ballots[number] for number in range(len(participants))]
        cast = [each for each in ballots if each.choice != "abstain"]
        share, summary = (_mean_score if self.config.vote_type == "score_1_10" else _approval_share)(cast)
        approved = bool(cast) and share >= self.config.threshold
        shown = {one.id: _ballot_value(each) for one, each in zip(participants, ballots, strict=True)}
        tally: dict[str, Any] = {"ballots": shown, "share": share, "approved": approved}
        port = PORTS[0] if approved else PORTS[1]
        text = f"{port}: {summary}{self._result_details(cast, approved)}"
        if self.semantics < 1:
            return Outcome((Message(text, "assistant", tally),), port)
        tally["summary"] = text
        data = {**(self.subject.data or {}), **tally}
        return Outcome((Message(self.subject.content, "assistant", data),), port, report=tally)

    def _result_details(self, cast: list[Ballot], approved: bool) -> str:
        abstentions = len(self.config.participants) - len(cast)
        abstained = f", {abstentions} abstained" if cast and abstentions else ""
        return abstained + (f", less than {self.config.threshold:g}" if cast and not approved else "")


def _read_ballot(ballot_message: Message, vote_type: VoteType) -> list[Any]:
    """A ballot as a list, since a stored decision must be a plain JSON value and no mapping
    (kernel/facts.py)."""
    read = read_ballot(ballot_message.text, vote_type, ballot_message.data)
    return [read.choice, read.score]


def _approval_share(cast: list[Ballot]) -> tuple[float, str]:
    """The share of approvals, and its description."""
    count = sum(each.choice == "approve" for each in cast)
    return (count / len(cast), f"{count} of {len(cast)}") if cast else (0.0, "nobody voted")


def _mean_score(cast: list[Ballot]) -> tuple[float, str]:
    """The mean score as a share of the highest, and its description."""
    if not cast:
        return 0.0, "nobody voted"
    total = sum(each.score or 0 for each in cast)
    return total / (MAX_SCORE * len(cast)), f"{round(total / len(cast), 2):g} of {MAX_SCORE} on average"


def _ballot_value(vote: Ballot) -> str | float:
    return vote.choice if vote.score is None else vote.score


EXAMPLE = """
- id: Board
  type: vote
  config:
    participants:
      - {id: Ada, type: agent}
      - {id: Bo, type: human}
    question: Shall we print it?
"""

NODE = NodeType(
    "vote",
    Config,
    "Lets participants vote at the same time, and selects the port by the result.",
    prepare_composite,
    title="Vote",
    zh=("投票", "参与者同时投票，按结果选择出口。"),
    port_titles={
        "approved": ("Enough approve", "获得通过"),
        "rejected": ("Too few approve", "未获通过"),
    },
    example=EXAMPLE,
    ports=lambda _config: PORTS,
    bodies=lambda config: tuple(participant.graph for participant in config.participants),
    controller=VoteController,
    single=lambda _config: True,
    iterations=lambda config: (1,) * len(config.participants),
    body_context=lambda _config: "speakers",
)
