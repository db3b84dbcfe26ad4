"""What consensus is: one definition for all nodes that ask for it.

`phrase`: the latest message of every participant agrees, and there are at least two. `vote`: enough of those
who vote approve. `judge`: a model is asked, which is up to the node. `stable_for` asks for it in so many
rounds in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from roundel.nodes.agreement import agrees
from roundel.nodes.ballot import Ballot, Choice, VoteType, ballot
from roundel.nodes.wording import AGREEING
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.message import Message

__all__ = [
    "Ballot",
    "Choice",
    "Consensus",
    "VoteType",
    "agrees",
    "ballot",
    "phrase_consensus",
    "reached",
    "rounds_in_a_row",
    "vote_consensus",
]


class Consensus(Struct, frozen=True, omit_defaults=True):
    """When participants are of one mind."""

    method: Literal["phrase", "vote", "judge"] = "phrase"
    phrases: Annotated[tuple[str, ...], Meta(extra={"wrap": True})] = AGREEING
    quorum: Annotated[float, Meta(gt=0, le=1)] = 0.67
    stable_for: Annotated[int, Meta(ge=1)] = 1
    judge: Any = None
    """The agent that is asked."""
    question: str = "Do the participants agree? Answer yes or no."

    def __check__(self, at: Located, report: Report) -> bool:
        if self.phrases and all(phrase.strip() for phrase in self.phrases):
            return True
        message = "'phrases' of the consensus holds nothing to look for"
        hint = "write the phrases that mean agreement, or leave it out"
        report.error("no-phrases", message, child(at, "phrases"), hint)
        return False


def phrase_consensus(latest: Mapping[str, str], phrases: Iterable[str] = AGREEING) -> bool:
    """Whether the latest words of each participant agree."""
    known = tuple(phrases)
    return len(latest) >= 2 and all(agrees(text, known) for text in latest.values())


def vote_consensus(ballots: Iterable[Ballot], quorum: float) -> bool:
    """Whether enough of those who did not abstain approve."""
    cast = [vote.choice == "approve" for vote in ballots if vote.choice != "abstain"]
    return bool(cast) and sum(cast) / len(cast) >= quorum


def reached(config: Consensus, latest: Mapping[str, Message]) -> bool:
    """Whether the latest messages of the participants are consensus, by words or by votes."""
    if config.method == "vote":
        ballots = (ballot(message.text, data=message.data) for message in latest.values())
        return vote_consensus(ballots, config.quorum)
    return phrase_consensus({name: message.text for name, message in latest.items()}, config.phrases)


def rounds_in_a_row(count: int, held: bool) -> int:
    """For how many rounds it has held, after one more."""
    return count + 1 if held else 0
