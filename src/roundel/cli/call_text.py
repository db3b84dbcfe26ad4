"""`roundel log --call`: what one call of a model or a tool got and returned, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from roundel.cli.next_step import suggest
from roundel.cli.output import echo, one_line, pluralize, print_json, styled
from roundel.cli.store_access import find_run, with_runs
from roundel.runs.calls import CallDetails, CallPart, NoCall
from roundel.runs.runs import Runs


def show_call(run: str, address: str, number: int | None, as_json: bool, place: str | None) -> None:
    """Prints a call of a stored run."""

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        try:
            details = await runs.call(run_id, address, number)
        except NoCall:
            suggest("log", run_id)
            raise
        if as_json:
            print_json(details)
            return
        for heading, text in call_text(details):
            echo(styled(heading, bold=True), err=False)
            if text:
                echo(text.rstrip("\n"), err=False)
            echo("", err=False)

    with_runs(place, work)


def call_text(details: CallDetails) -> Iterator[tuple[str, str]]:
    """The headings of a call with the texts below them."""
    yield _heading(details), "\n".join(_figures(details))
    if details.system is not None:
        yield from _part("system", details.system)
    for message in details.messages:
        yield from _part(_message_heading(message), message)
    for number, exchange in enumerate(details.exchanges, 1):
        yield from _exchange(number, exchange)
    for message in details.after:
        yield from _part(_message_heading(message), message)
    if details.tools is not None:
        yield "tools", _tool_lines(details.tools) + _missing(details.tools)
    single = (
        ("schema of the answer", details.schema),
        ("arguments", details.arguments),
        ("arguments that a person allowed", details.approved),
        ("result", details.result),
    )
    for name, part in single:
        if part is not None:
            yield from _part(name, part)
    if details.reply is not None:
        yield "answer", "\n".join(_reply_lines(details.reply)) + _missing(details.reply)
    if details.error:
        yield "error", details.error


def _heading(details: CallDetails) -> str:
    if details.kind == "tool":
        return f"{one_line(details.address)}  tool {one_line(details.tool)}  {details.status}".rstrip()
    number = f"call {details.call} of {details.calls}"
    state = "in flight" if details.state == "in_flight" else ""
    return "  ".join(filter(None, (one_line(details.address), number, details.model, state)))


def _figures(details: CallDetails) -> Iterator[str]:
    """What is known of a call besides texts."""
    if details.usage is not None and (details.usage.input_tokens or details.usage.output_tokens):
        yield f"{details.usage.input_tokens:,} tokens in, {details.usage.output_tokens:,} out"
    if details.usage is not None and details.usage.cached:
        yield "from the cache"
    if details.seconds:
        yield f"{details.seconds:g} s"
    for attempt in details.attempts:
        yield f"failed before: {one_line(': '.join(filter(None, (attempt.model, attempt.error))))}"
    if details.stop:
        yield f"stopped: {details.stop}"
    if details.by:
        yield f"decided by {one_line(details.by)}"
    for name, value in sorted(details.params.items()):
        yield f"{one_line(name)}: {_plain(value)}"
    if details.exchanges and not details.may_call:
        yield "the model might not call tools"
    if not details.complete:
        yield f"not complete: {details.why}"


def _message_heading(message: CallPart) -> str:
    return " ".join(filter(None, (message.role or message.kind, one_line(message.source))))


def _part(heading: str, part: CallPart) -> Iterator[tuple[str, str]]:
    yield heading, part.shown + _missing(part)


def _missing(part: CallPart) -> str:
    """What to say about a part that is not complete."""
    if not part.why:
        return ""
    length = f"{pluralize(part.bytes, 'byte')}; " if part.bytes else ""
    return f"[{length}{part.why}]" if not part.shown else f"\n[{part.why}]"


def _exchange(number: int, part: CallPart) -> Iterator[tuple[str, str]]:
    if not isinstance(part.value, dict):
        yield from _part(f"round {number} of tools", part)
        return
    lines = [part.value["text"]] if part.value["text"] else []
    results = {result["id"]: result for result in part.value["results"]}
    for call in part.value["tool_calls"]:
        lines.append(f"{call['name']}({_plain(call['arguments'])})")
        result = results.get(call["id"])
        if result is not None:
            lines.append(f"  {result['status']}: {result['text']}")
    yield f"round {number} of tools", "\n".join(lines)


def _tool_lines(part: CallPart) -> str:
    if not isinstance(part.value, list):
        return part.shown
    return "\n".join(f"{tool['name']}: {one_line(tool['description'])}" for tool in part.value)


def _reply_lines(part: CallPart) -> Iterator[str]:
    value: dict[str, Any] = part.value or {}
    if part.text:
        yield part.text
    if value.get("data"):
        yield _plain(value["data"])
    for call in value.get("tool_calls", ()):
        yield f"{call['name']}({_plain(call.get('arguments', {}))})"


def _plain(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()
