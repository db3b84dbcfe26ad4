"""Consensus: how a vote is parsed, and when there is enough agreement."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.nodes.consensus import (
    Ballot,
    Choice,
    Consensus,
    count_consecutive,
    has_consensus,
    phrase_consensus,
    read_ballot,
    vote_consensus,
)
from roundel.workflow.message import Message

# By words


def test_consensus_requires_at_least_two_and_all_to_agree() -> None:
    assert phrase_consensus({"Ada": "I agree", "Bo": "达成共识"})
    assert not phrase_consensus({"Ada": "I agree", "Bo": "I don't agree"})
    assert not phrase_consensus({"Ada": "I agree", "Bo": "Well."})
    assert not phrase_consensus({"Ada": "I agree"})
    assert not phrase_consensus({})
    assert phrase_consensus({"Ada": "deal", "Bo": "Deal!"}, ["deal"])


# By votes


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        *[
            (text, "approve")
            for text in ("yes", "Yes.", "YES, it works", "Yes I do", "aye", "approve", "APPROVED")
        ],
        *[(text, "approve") for text in ("No objections, I approve", "I support it", "I am in favour of it")],
        *[
            (text, "approve")
            for text in ("Vote: yes", "**Vote:** Approve", "I vote to approve.", "I vote for it")
        ],
        *[(text, "approve") for text in ("Talk.\nFinal vote: Approve\n", "I voted: no. Now my vote: yes")],
        *[(text, "approve") for text in ('My vote is "approve"', "I vote “yes”.", "Final vote: 'Approve'")],
        *[(text, "approve") for text in ('{"vote": "yes"}', '{"vote": true}', '{"vote": "Approve."}')],
        *[
            (text, "approve")
            for text in ("赞成", "我赞成。", "投票：赞成", "我投赞成票", "同意", "贊成", "是")
        ],
        *[
            (text, "reject")
            for text in ("no", "No.", "NO - too slow", "No, I like it not", "Rejected", "nay")
        ],
        *[
            (text, "reject")
            for text in ("I cannot approve this", "I do not approve", "I reject it", "I'm against it")
        ],
        *[(text, "reject") for text in ("My vote is no", "I vote against it", "Decision: not approved")],
        *[(text, "reject") for text in ("It is slow.\n\nReject", '{"vote": "No"}', '{"vote": false}')],
        ('Why:\n```json\n{"vote": "reject", "why": "yes, it is slow"}\n```', "reject"),
        *[(text, "reject") for text in ("反对", "我反对这个方案", "我不赞成", "不同意", "我投反对票", "否")],
        *[
            (text, "abstain")
            for text in ("abstain", "I abstain, though I support the goal", '{"vote": "abstain"}')
        ],
        *[(text, "abstain") for text in ("弃权", "我弃权", "maybe", "", "Notable", "Yesterday was nice")],
        *[(text, "abstain") for text in ('Bo said "I approve".', "评审说“同意”。")],
        *[(text, "abstain") for text in ("Approve?", "There is no reason to reject this")],
    ],
)
def test_ballot_is_read_from_text(text: str, choice: Choice) -> None:
    assert read_ballot(text) == Ballot(choice)


def test_structured_ballot_fields_override_the_text() -> None:
    assert read_ballot("no", data={"vote": "approve"}).choice == "approve"
    assert read_ballot("no", data={"vote": "perhaps"}).choice == "reject"
    assert read_ballot("6", "score_1_10", {"score": 2}) == Ballot("reject", 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", Ballot("approve", 8)),
        ("8/10, a little long", Ballot("approve", 8)),
        ("Score: 7.5", Ballot("approve", 7.5)),
        ("**Score:** 6", Ballot("approve", 6)),
        ("评分：9", Ballot("approve", 9)),
        ("我打9分", Ballot("approve", 9)),
        ('{"score": 10}', Ballot("approve", 10)),
        ('{"score": 1}', Ballot("reject", 1)),
        ('{"vote": 3}', Ballot("reject", 3)),
        ("5.5", Ballot("reject", 5.5)),
        ("0", Ballot("abstain")),
        ("11", Ballot("abstain")),
        ("-3", Ballot("abstain")),
        ("Score: 85", Ballot("abstain")),
        ("none", Ballot("abstain")),
    ],
)
def test_ballot_scores_from_1_to_10(text: str, expected: Ballot) -> None:
    assert read_ballot(text, "score_1_10") == expected


@pytest.mark.parametrize(
    ("approve", "reject", "abstain", "quorum", "expected"),
    [
        (2, 1, 0, 0.66, True),
        (2, 1, 0, 0.67, False),  # two thirds are less than 0.67
        (3, 1, 0, 0.75, True),
        (3, 2, 0, 0.6, True),
        (1, 1, 0, 0.5, True),
        (1, 1, 0, 0.51, False),
        (1, 0, 5, 1, True),
        (9, 1, 0, 1, False),
        (0, 1, 0, 0.01, False),
        (0, 0, 3, 0.01, False),
        (0, 0, 0, 0.01, False),
    ],
)
def test_abstentions_do_not_count(
    approve: int, reject: int, abstain: int, quorum: float, expected: bool
) -> None:
    ballots = [Ballot("approve")] * approve + [Ballot("reject")] * reject + [Ballot("abstain")] * abstain
    assert vote_consensus(ballots, quorum) is expected


def test_consensus_by_phrases_or_votes() -> None:
    latest = {"Ada": Message("I agree"), "Bo": Message("no", data={"vote": "yes"})}
    assert has_consensus(Consensus(method="vote", quorum=1), latest)
    assert not has_consensus(Consensus(), latest)
    assert has_consensus(Consensus(phrases=("I agree", "no")), {**latest, "Bo": Message("no!")})


def test_consecutive_consensus_rounds_are_counted() -> None:
    counts, count = [], 0
    for held in (True, True, False, True, True, True):
        count = count_consecutive(count, held)
        counts.append(count)
    assert counts == [1, 2, 0, 1, 2, 3]


# Settings


@pytest.mark.parametrize(
    ("settings", "code", "line", "message"),
    [
        ("method: shouting", "wrong-type", 8, "must be one of phrase, vote, judge, not 'shouting'"),
        ("phrases: []", "no-phrases", 8, "of the consensus is empty or contains an empty phrase"),
        ("phrases: [' ']", "no-phrases", 8, "of the consensus is empty or contains an empty phrase"),
        ("phrases: {a: b}", "wrong-type", 8, "'phrases' of"),
        ("quorum: 0", "wrong-type", 8, "must be a number above 0 and of at most 1, not 0"),
        ("quorum: 1.01", "wrong-type", 8, "must be a number above 0 and of at most 1, not 1.01"),
        ("stable_for: 0", "wrong-type", 8, "must be a whole number of at least 1, not 0"),
        ("stable_for: 1.5", "wrong-type", 8, "must be a whole number of at least 1, not 1.5"),
    ],
)
def test_invalid_consensus_settings_are_rejected(
    tmp_path: Any, settings: str, code: str, line: int, message: str
) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(
        "graph:\n  start: Gate\n  nodes:\n    - id: Gate\n      type: loop\n      config:\n"
        f"        exit_condition: consensus\n        consensus: {{{settings}}}\n",
        encoding="utf-8",
    )
    _, report = roundel.check(path)
    [found] = [found for found in report.errors if found.code != "guard-wiring"]
    assert (found.code, found.line) == (code, line)
    assert message in found.message
