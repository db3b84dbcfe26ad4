"""The personas answer only from what they are sent."""

from __future__ import annotations

import json

import pytest

from tests.reality.personas import ASKS_BACK, LEAD_IN, NO_WORK, PERSONAS, UNTOLD, persona, reply_to
from tests.reality.request import Prompt, Tool, Turn
from tests.reality.world import CODE, TEXT, begin, find

TASK = "a short text about tea"
DRAFT = begin(TASK)
PICTURE, FAREWELL = (flaw.note for flaw in TEXT.flaws)
BETTER = DRAFT.revised(PICTURE)
BEST = BETTER.revised(FAREWELL)
WRITE = "Write a short text. Revise it after each criticism."
JUDGE = "Criticise the text in one sentence, or say ACCEPT."


def user(text: str) -> Turn:
    return Turn("user", text)


def own(text: str) -> Turn:
    return Turn("assistant", text)


def say(system: str, *turns: Turn, chatty: bool = False) -> str:
    return reply_to(Prompt((Turn("system", system), *turns)), chatty).text


# Authors.


def test_an_author_writes_revises_and_comes_to_an_end() -> None:
    assert say(WRITE, user(TASK)) == DRAFT.text
    assert say(WRITE, user(TASK), own(DRAFT.text), user(PICTURE)) == BETTER.text
    assert say(WRITE, user(TASK), own(BETTER.text), user(FAREWELL)) == BEST.text
    assert BEST.missing == []


def test_an_author_that_sees_only_the_criticism_asks_for_the_text() -> None:
    assert say(WRITE, user(PICTURE)).startswith(ASKS_BACK)
    assert say(WRITE, user(NO_WORK)).startswith(ASKS_BACK)
    assert say(WRITE, user("Loop limit reached (3)")).startswith(ASKS_BACK)


def test_an_author_without_its_draft_begins_anew() -> None:
    assert say(WRITE, user(TASK), user(FAREWELL)) == DRAFT.revised(FAREWELL).text


def test_an_author_without_new_criticism_changes_nothing() -> None:
    assert say(WRITE, user(TASK), own(BETTER.text), user(PICTURE)) == BETTER.text


def test_an_author_reads_criticism_in_json_and_behind_a_name() -> None:
    note = json.dumps({"score": 60, "note": PICTURE})
    assert say(WRITE, user(TASK), own(DRAFT.text), user(note)) == BETTER.text
    assert say(WRITE, user(TASK), own(DRAFT.text), user(f"Critic: {PICTURE}")) == BETTER.text


def test_chatty_authors_lead_in_unless_the_role_asks_for_the_text_alone() -> None:
    wrapped = say(WRITE, user(TASK), chatty=True)
    assert wrapped.startswith(LEAD_IN) and find(wrapped) == DRAFT
    assert say(f"{WRITE} Answer with the text alone.", user(TASK), chatty=True) == DRAFT.text
    assert say(WRITE, user(TASK), own(wrapped), user(PICTURE)) == BETTER.text


def test_coders_repair_what_fails() -> None:
    role, task = "Write the code. Repair it after each failure.", "a function that adds numbers"
    first = begin(task, CODE)
    assert say(role, user(task)) == first.text
    fenced = say(role, user(task), own(first.text), user("It fails on empty input."), chatty=True)
    assert "```python" in fenced and find(fenced) == first.revised("It fails on empty input.")


@pytest.mark.parametrize(
    "criticism", ["9 words are too many, 8 are allowed: …", "Say please: …", "1 lines, not 3."]
)
def test_authors_follow_what_code_says(criticism: str) -> None:
    revised = find(say(WRITE, user(TASK), own(DRAFT.text), user(criticism)))
    assert revised is not None and revised != DRAFT and revised.is_about(TASK)


# Critics.


def test_a_critic_asks_for_what_is_missing_and_accepts_what_is_complete() -> None:
    assert say(JUDGE, user(DRAFT.text)) == PICTURE
    assert say(JUDGE, user(BETTER.text)) == FAREWELL
    assert say(JUDGE, user(BEST.text)) == "ACCEPT"


def test_a_critic_that_sees_the_task_notices_another_topic() -> None:
    other = begin("coffee").revised(PICTURE).revised(FAREWELL).text
    assert say(JUDGE, user(other)) == "ACCEPT"
    assert say(JUDGE, user(TASK), user(other)) == f"This is not what was asked for: {TASK}"


def test_a_verdict_of_somebody_else_is_no_task() -> None:
    assert say(JUDGE, user(BEST.text), user("PASS. Well done.")) == "ACCEPT"


def test_a_critic_without_a_text_asks_for_it() -> None:
    assert say(JUDGE, user(TASK)) == NO_WORK
    assert say(JUDGE, user(f"{ASKS_BACK} I only see this: x")) == NO_WORK


def test_chatty_critics_name_the_verdict_that_they_do_not_give() -> None:
    assert say(JUDGE, user(DRAFT.text), chatty=True) == f"I can't say ACCEPT yet. {PICTURE}"
    assert say(JUDGE, user(BEST.text), chatty=True).startswith("ACCEPT")


def test_critics_score_in_json() -> None:
    role = 'Judge the line. Answer with JSON alone: {"score": 0 to 100, "note": what to change}.'
    assert json.loads(say(role, user(DRAFT.text))) == {"score": 60, "note": PICTURE}
    assert "```json" in say(role, user(DRAFT.text), chatty=True)


def test_critics_fill_a_schema() -> None:
    kinds = {"accept": "boolean", "score": "integer", "feedback": "string"}
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in kinds.items()}}
    strict = Prompt((user(BEST.text),), schema=schema, is_strict=True)
    filled = {"accept": True, "score": 100, "feedback": "Well done."}
    assert json.loads(reply_to(strict, chatty=True).text) == filled
    assert "```json" in reply_to(strict._replace(is_strict=False), chatty=True).text


# Others.


def test_debaters_come_to_terms_and_a_secretary_needs_the_matter() -> None:
    role, question = "You want it soon. Say I agree once you do.", user("When do we release?")
    assert say(role, question) == "I propose Monday."
    assert say(role, question, user("I propose Monday.")) == "I propose Friday."
    gives_in = say(role, question, own("I propose Monday."), user("I propose Friday."))
    assert gives_in == "So Friday it is. I agree."
    assert say(role, question, own("I propose Friday."), user(gives_in)) == "I agree."
    note = "Write down in one sentence what was decided."
    assert say(note, user("I agree.")) == UNTOLD
    assert say(note, user(f"Ada: {gives_in}\nBo: I agree.")) == "It was decided: Friday."


def test_planners_answer_with_json() -> None:
    role = "Answer with a JSON array of section titles, and nothing else."
    assert json.loads(say(role, user("tea"))) == ["tea, part 1", "tea, part 2"]
    assert "questions" in json.loads(say('Answer with JSON: {"questions": [...]}.', user("tea")))


def test_tool_users_call_each_tool_and_then_answer() -> None:
    sales = Tool("sales", {"properties": {"tea": {"enum": ["green", "oolong"]}}, "required": ["tea"]})
    order = Tool("order", {"properties": {"grams": {"type": "integer"}}, "required": ["grams"]})
    prompt = Prompt((user("What do we need?"),), (sales, order))
    assert [call[2] for call in reply_to(prompt).tool_calls] == [{"tea": "green"}, {"tea": "oolong"}]
    assert reply_to(prompt._replace(called=("sales",))).tool_calls[0][1] == "order"
    done = prompt._replace(called=("sales", "order"), turns=(*prompt.turns, Turn("tool", "Ordered.")))
    assert reply_to(done).text == "From the tools: Ordered."


def test_exit_loop_is_called_with_a_work_that_is_complete() -> None:
    tools = (Tool("exit_loop", {"properties": {"result": {"type": "string"}}}),)
    assert not reply_to(Prompt((user(TASK), own(DRAFT.text), user(PICTURE)), tools)).tool_calls
    ((_, name, given),) = reply_to(Prompt((user(TASK), own(BEST.text), user("Well done.")), tools)).tool_calls
    assert (name, given) == ("exit_loop", {"reason": "it is good", "result": BEST.text})


def test_a_model_without_a_role_does_not_know_that_it_is_a_critic() -> None:
    assert "reads well" in reply_to(Prompt((user(BEST.text),))).text


def test_every_persona_is_found_by_some_role() -> None:
    found = {persona(role) for role in (WRITE, JUDGE, "Find a better answer.", "Correct the spelling.")}
    assert len(found) == 4 and found <= {one for _, one in PERSONAS}
