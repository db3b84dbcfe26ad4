"""The audit finds what an agent lacks, and what providers refuse."""

from __future__ import annotations

import pytest

from tests.reality.audit import (
    ENGINE,
    NO_NAMES,
    NO_NEWS,
    NO_OWN,
    NO_ROLE,
    NO_TASK,
    TWICE,
    Cast,
    Finding,
    audit,
    refused,
)
from tests.reality.provider import Seen
from tests.reality.request import Prompt, Turn

TASK = "a short text about tea"
CAST = Cast({"Writer": "Write.", "Critic": "Judge."}, TASK)
DRAFT, NOTE = "Tea is a drink, and a good one.", "Give the reader a picture of it."


def sent(number: int, system: str, *turns: Turn, answer: str = "ok") -> Seen:
    return Seen(number, Prompt((Turn("system", system), *turns)), answer)


def user(text: str, name: str = "") -> Turn:
    return Turn("user", text, name)


def own(text: str) -> Turn:
    return Turn("assistant", text)


def first_round() -> list[Seen]:
    drafted = sent(1, "Write.", user(TASK), answer=DRAFT)
    return [drafted, sent(2, "Judge.", user(TASK), user(DRAFT), answer=NOTE)]


def test_an_author_that_sees_everything_lacks_nothing() -> None:
    again = sent(3, "Write.", user(TASK), own(DRAFT), user(NOTE))
    assert audit([*first_round(), again], CAST) == []


def test_an_author_that_sees_only_the_criticism_lacks_task_and_draft() -> None:
    again = sent(3, "Write.", user(NOTE))
    assert audit([*first_round(), again], CAST) == [
        Finding("Writer", NO_TASK, (3,)),
        Finding("Writer", NO_OWN, (3,)),
    ]


def test_a_task_that_is_only_quoted_in_a_draft_was_not_shown() -> None:
    quoting = f"About {TASK}: it is a drink."
    drafted = sent(1, "Write.", user(TASK), answer=quoting)
    judged = [sent(number, "Judge.", own("ok"), user(quoting)) for number in (2, 3)]
    assert Finding("Critic", NO_TASK, (3,)) in audit([drafted, *judged], CAST)


def test_a_draft_that_a_user_seems_to_have_written_is_not_the_agents_own() -> None:
    again = sent(3, "Write.", user(TASK), user(DRAFT), user(NOTE))
    assert audit([*first_round(), again], CAST) == [Finding("Writer", NO_OWN, (3,))]


def test_old_criticism_is_no_news() -> None:
    again = sent(3, "Write.", user(TASK), own(DRAFT), user("Say when."))
    assert audit([*first_round(), again], CAST) == [Finding("Writer", NO_NEWS, (3,))]


def test_feedback_of_a_schema_counts_without_its_json() -> None:
    verdict = '```json\n{"accept": false, "feedback": "Give the reader a picture of it."}\n```'
    judged = sent(2, "Judge.", user(TASK), user(DRAFT), answer=verdict)
    again = sent(3, "Write.", user(TASK), own(DRAFT), user(f"{NOTE}\nScore: 60"))
    assert audit([first_round()[0], judged, again], CAST) == []


def test_agents_of_a_list_begin_anew() -> None:
    titles = [sent(1, "Write.", user("Green tea")), sent(2, "Write.", user("Black tea"))]
    assert {finding.problem for finding in audit(titles, CAST)} == {NO_TASK, NO_OWN}
    assert audit(titles, CAST._replace(independent=("Writer",))) == []


def test_agents_of_an_inner_loop_have_the_task_of_the_outer_one() -> None:
    cast = Cast({"Planner": "Plan.", "Coder": "Code."}, TASK, tasks_from={"Coder": "Planner"})
    planned = sent(1, "Plan.", user(TASK), answer="Build the kettle first.")
    coded = sent(2, "Code.", user("Build the kettle first."), answer="def kettle(): …")
    again = sent(3, "Code.", user("Build the kettle first."), own("def kettle(): …"), user("It is cold."))
    assert audit([planned, coded, again], cast) == []


def test_what_a_person_says_is_news() -> None:
    asked = Seen(0, Prompt(()), "Say when they should come.", "Editor")
    drafted, blind = first_round()[0], sent(3, "Write.", user(TASK), own(DRAFT), user("Continue."))
    assert audit([drafted, asked, blind], CAST) == [Finding("Writer", NO_NEWS, (3,))]


def test_two_speakers_need_names() -> None:
    cast = Cast({"Ada": "You are quick.", "Bo": "You are careful.", "Cy": "You listen."}, TASK)
    spoken = [
        sent(1, "You are quick.", user(TASK), answer="Let us do it today."),
        sent(2, "You are careful.", user(TASK), answer="Let us wait a week."),
    ]
    nameless = sent(3, "You listen.", user("Let us do it today."), user("Let us wait a week."))
    assert audit([*spoken, nameless], cast) == [Finding("Cy", NO_NAMES, (3,))]
    before = sent(3, "You listen.", user("Ada: Let us do it today."), user("Bo: Let us wait a week."))
    field = sent(3, "You listen.", user("Let us do it today.", "Ada"), user("Let us wait a week.", "Bo"))
    assert audit([*spoken, before], cast) == audit([*spoken, field], cast) == []


def test_sentences_of_the_engine_stand_in_brackets() -> None:
    said, marked = "Loop limit reached (3)", "[Loop limit reached (3)]"
    assert audit([sent(1, "Write.", user(TASK), user(said))], CAST) == [Finding("Writer", ENGINE, (1,))]
    assert audit([sent(1, "Write.", user(TASK), user(marked))], CAST) == []
    guarded = CAST._replace(notices=("The tests did not pass.",))
    unmarked = sent(1, "Write.", user(TASK), user("The tests did not pass."))
    assert audit([unmarked], guarded) == [Finding("Writer", ENGINE, (1,))]


def test_texts_that_are_sent_twice_and_agents_without_a_role_are_found() -> None:
    assert audit([sent(1, "Write.", user(TASK), user(TASK))], CAST) == [Finding("Writer", TWICE, (1,))]
    nobody = Seen(1, Prompt((user(TASK),)), "ok", "Writer")
    assert audit([nobody], CAST) == [Finding("Writer", NO_ROLE, (1,))]


@pytest.mark.parametrize(
    ("turns", "problems"),
    [
        ("su", []),
        ("sua", ["ends with the assistant"]),
        ("ssu", ["two system messages"]),
        ("sus", ["two system messages", "system message behind others"]),
        ("sau", ["begins with the assistant"]),
        ("suaau", ["two answers in a row"]),
        ("s", ["no user message"]),
        ("suatu", []),
    ],
)
def test_requests_that_providers_refuse(turns: str, problems: list[str]) -> None:
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    assert refused(Prompt(tuple(Turn(roles[turn], "x") for turn in turns))) == problems


def test_empty_messages_are_refused() -> None:
    assert refused(Prompt((user(" "),))) == ["empty message"]
