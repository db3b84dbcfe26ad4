"""`roundel answer`: answers what a run asks, and goes on with it."""

from __future__ import annotations

import sys

import click

from roundel.cli.arguments import run_argument
from roundel.cli.going_on import go_on
from roundel.cli.next_step import suggest
from roundel.cli.output import say
from roundel.cli.stored import find_run, in_store, store_option
from roundel.cli.work import person_is_there
from roundel.hosts.result import Question
from roundel.journal.store import Store, StoreError
from roundel.sessions.control import answer, asked, question_at
from roundel.sessions.going_on import Answer
from roundel.workflow.message import Message


@click.command("answer")
@run_argument
@click.argument("text", required=False, metavar="[TEXT|-]")
@click.option("--at", "address", default="", metavar="ADDRESS", help="Which question, if there are several.")
@click.option("--no-run", is_flag=True, help="Record the answer, and do not go on with the run.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def command(run: str, text: str | None, address: str, no_run: bool, as_json: bool, place: str | None) -> None:
    """Answer what a run asks, and go on with it here, unless another process is at work on it.

    RUN is an id, the beginning of one, or `last`. TEXT is the answer, - reads it from standard input. Without
    it you are asked in a terminal; elsewhere the open questions are shown. Output and
    exit codes are those of `roundel run`.
    """
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")

    async def work(store: Store) -> int:
        run_id = await find_run(store, run)
        if text is None and person_is_there() and not (address or no_run or as_json):
            return await _ask(store, run_id)
        if text is None:
            await _show(store, run_id)
            return 0
        return await _answer(store, run_id, text, address, no_run, as_json)

    sys.exit(in_store(place, work))


async def _ask(store: Store, run_id: str) -> int:
    """Somebody is there to be asked: the run goes on, and asks."""
    row = await store.row(run_id)
    if row.owner or row.status != "waiting":
        await _show(store, run_id)
        return 0
    return await go_on(store, run_id, as_json=False)


async def _show(store: Store, run_id: str) -> None:
    from roundel.cli.output import console
    from roundel.cli.prompt import shown

    questions = await asked(store, run_id)
    if not questions:
        raise StoreError(f"run {run_id} asks nobody; it is {(await store.row(run_id)).status}")
    for question in questions:
        console(stderr=False).print(shown(question))
    at = ("--at", questions[0].address) if len(questions) > 1 else ()
    suggest("answer", run_id, "TEXT", *at)


async def _answer(store: Store, run_id: str, text: str, address: str, no_run: bool, as_json: bool) -> int:
    question = await question_at(store, run_id, address)
    _must_be_clear(text, question)
    message, row = Message(text, "user"), await store.row(run_id)
    if not (row.owner or no_run or row.status == "paused"):
        return await go_on(store, run_id, as_json, Answer(question.address, message))
    if await answer(store, run_id, message, question.address):
        say(f"answered; run {run_id} goes on, in the process that is at work on it")
    else:
        say("answered")
    return 0


def _must_be_clear(text: str, question: Question) -> None:
    """A slip of the hand must not decide about a tool call."""
    from roundel.cli.prompt import unclear

    problem = unclear(text) if question.tool is not None else ""
    if problem:
        raise click.UsageError(problem)
