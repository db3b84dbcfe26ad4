"""What consensus is: one definition for all nodes that ask for it.

`phrase`: the latest message of every participant agrees, and there are at least two. `vote`: enough of those
who vote approve. `judge`: a model is asked, which is up to the node. `stable_for` asks for it in so many
rounds in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from roundel.nodes.agreement import is_agreement
from roundel.nodes.ballot import Ballot, Choice, VoteType, ballot
from roundel.nodes.wording import AGREEING_PHRASES
from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import child
from roundel.workflow.message import Message

__all__ = [
    "Ballot",
    "Choice",
    "Consensus",
    "VoteType",
    "ballot",
    "count_consecutive",
    "has_consensus",
    "is_agreement",
    "phrase_consensus",
    "vote_consensus",
]


class Consensus(Struct, frozen=True, omit_defaults=True):
    """When participants are of one mind."""

    method: Literal["phrase", "vote", "judge"] = "phrase"
    phrases: Annotated[tuple[str, ...], Meta(extra={"wrap": True})] = AGREEING_PHRASES
    quorum: Annotated[float, Meta(gt=0, le=1)] = 0.67
    stable_for: Annotated[int, Meta(ge=1)] = 1
    judge: Any = None
    """The agent that is asked."""
    question: str = "Do the participants agree? Answer yes or no."

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="consensus",
            en=("Consensus", "When participants agree."),
            zh=("共识", "参与者何时算作达成一致。"),
            fields={
                "method": Field(
                    en=("Method", "How agreement is found."),
                    zh=("判定方式", "如何判定是否一致。"),
                    choices={
                        "phrase": ("By phrases", "按措辞"),
                        "vote": ("By votes", "按投票"),
                        "judge": ("By a judge", "由裁判判定"),
                    },
                ),
                "phrases": Field(
                    en=(
                        "Phrases",
                        "By phrases: what means agreement, such as `I agree`, in several languages if not "
                        "set.",
                    ),
                    zh=("措辞", "按措辞判定时：哪些话表示同意；不填则使用多种语言的常见说法，如 `I agree`。"),
                ),
                "quorum": Field(
                    en=(
                        "Quorum",
                        "By votes: which share of the votes must approve. Two of three are less than 0.67.",
                    ),
                    zh=("通过比例", "按投票判定时：赞成票须达到的比例。三分之二小于 0.67。"),
                ),
                "stable_for": Field(
                    en=("Stable for", "For how many rounds in a row there must be consensus."),
                    zh=("持续轮次", "须连续多少轮达成共识。"),
                    unit="rounds",
                ),
                "judge": Field(
                    en=("Judge", "By a judge: the node that decides. A `loop` cannot have one."),
                    zh=("裁判", "由裁判判定时：作出判定的节点。`loop` 不能使用裁判。"),
                ),
                "question": Field(
                    en=("Question", "By a judge: the question put to it."),
                    zh=("问题", "由裁判判定时：向裁判提出的问题。"),
                    widget="textarea",
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.phrases and all(phrase.strip() for phrase in self.phrases):
            return True
        message = "'phrases' of the consensus holds nothing to look for"
        hint = "write the phrases that mean agreement, or leave it out"
        report.error("no-phrases", message, child(at, "phrases"), hint)
        return False


def phrase_consensus(latest: Mapping[str, str], phrases: Iterable[str] = AGREEING_PHRASES) -> bool:
    """Whether the latest words of each participant agree."""
    known_phrases = tuple(phrases)
    return len(latest) >= 2 and all(is_agreement(text, known_phrases) for text in latest.values())


def vote_consensus(ballots: Iterable[Ballot], quorum: float) -> bool:
    """Whether enough of those who did not abstain approve."""
    cast = [vote.choice == "approve" for vote in ballots if vote.choice != "abstain"]
    return bool(cast) and sum(cast) / len(cast) >= quorum


def has_consensus(config: Consensus, latest: Mapping[str, Message]) -> bool:
    """Whether the latest messages of the participants are consensus, by words or by votes."""
    if config.method == "vote":
        ballots = (ballot(message.text, data=message.data) for message in latest.values())
        return vote_consensus(ballots, config.quorum)
    return phrase_consensus({name: message.text for name, message in latest.items()}, config.phrases)


def count_consecutive(count: int, held: bool) -> int:
    """For how many rounds it has held, after one more."""
    return count + 1 if held else 0
