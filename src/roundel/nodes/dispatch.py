"""What a loop agent asks of code that users wrote: predicates, converters, strategies.

The answers are facts of the run, so they have to be JSON; and nothing that a strategy keeps is kept in the
strategy itself, which may serve in many loops and many runs at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.array_conductor import listed
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.message import Message, as_message

GIVEN = ("messages", "round", "results")
"""What a strategy finds in its state; everything else there is its own."""


def predicate(function: Callable[..., Any], services: Services) -> Behaviour:
    async def ask(call: Call) -> Outcome:
        return Outcome(state=bool(await services.call(function, call.inputs)))

    return ask


def converter(function: Callable[..., Any], services: Services) -> Behaviour:
    async def ask(call: Call) -> Outcome:
        answer = await services.call(function, call.inputs)
        try:
            return Outcome(state=listed(answer))
        except (TypeError, ValueError) as error:
            raise NodeError(f"the list for the loop cannot be written as JSON: {error}") from None

    return ask


def strategy(made: Any, services: Services) -> Behaviour:
    init, dispatch = methods(made() if isinstance(made, type) else made)

    async def ask(call: Call) -> Outcome:
        asked = call.state
        state = {**_json(asked["memory"]), "messages": call.inputs, "round": asked["round"]}
        state["results"] = list(asked["results"])
        if asked["round"] == 0 and init is not None:
            await services.call(init, state)
        verdict = await services.call(dispatch, state)
        memory = _json({key: value for key, value in state.items() if key not in GIVEN})
        return Outcome(state={"go": _goes_on(verdict), "memory": memory, "inputs": _inputs(verdict)})

    return ask


def methods(strategy: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any]]:
    """The `init` and `dispatch` of a strategy; a plain function is a `dispatch` alone."""
    init, dispatch = getattr(strategy, "init", None), getattr(strategy, "dispatch", None)
    if callable(init) and callable(dispatch):
        return init, dispatch
    if callable(strategy) and init is None and dispatch is None:
        return None, strategy
    missing = "dispatch" if callable(init) else "init"
    raise LookupError(f"{described(strategy)} is not a loop strategy: it has no method '{missing}'")


def described(value: object) -> str:
    """An object of a user's, in an error."""
    plain = value is None or isinstance(value, (str, int, float, list, tuple, dict))
    return f"{value!r:.60}" if plain else f"an object of the class '{type(value).__name__}'"


def _json(memory: dict[str, Any]) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(memory))
    except (TypeError, ValueError, RecursionError) as error:
        raise NodeError(f"what the strategy keeps cannot be written as JSON: {error}") from None
    return copied


def _goes_on(verdict: Any) -> bool:
    if verdict is None or isinstance(verdict, (bool, str, Message, dict, list, tuple)):
        return verdict is not None and verdict is not False
    raise NodeError(
        f"dispatch gave {described(verdict)}; it gives true or false, or what the next round is to get"
    )


def _inputs(verdict: Any) -> list[Any] | None:
    """What the next round gets, if the strategy says so."""
    if verdict is None or isinstance(verdict, bool):
        return None
    values = verdict if isinstance(verdict, (list, tuple)) else [verdict]
    return [msgspec.to_builtins(as_message(value, "user")) for value in values]
