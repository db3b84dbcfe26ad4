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
from roundel.nodes.array_conductor import as_json_list
from roundel.nodes.services import Behaviour, NodeError, Services
from roundel.workflow.message import Message, as_message

STATE_KEYS = ("messages", "round", "results")
"""What a strategy finds in its state; everything else there is its own."""


def predicate_behaviour(function: Callable[..., Any], services: Services) -> Behaviour:
    async def evaluate(call: Call) -> Outcome:
        return Outcome(state=bool(await services.call(function, call.inputs)))

    return evaluate


def items_behaviour(function: Callable[..., Any], services: Services) -> Behaviour:
    async def evaluate(call: Call) -> Outcome:
        answer = await services.call(function, call.inputs)
        try:
            return Outcome(state=as_json_list(answer))
        except (TypeError, ValueError) as error:
            raise NodeError(f"the list for the loop cannot be written as JSON: {error}") from None

    return evaluate


def strategy(strategy_or_class: Any, services: Services) -> Behaviour:
    init, dispatch = strategy_methods(
        strategy_or_class() if isinstance(strategy_or_class, type) else strategy_or_class
    )

    async def evaluate(call: Call) -> Outcome:
        question = call.state
        state = {**_json_copy(question["memory"]), "messages": call.inputs, "round": question["round"]}
        state["results"] = list(question["results"])
        if question["round"] == 0 and init is not None:
            await services.call(init, state)
        decision = await services.call(dispatch, state)
        memory = _json_copy({key: value for key, value in state.items() if key not in STATE_KEYS})
        return Outcome(
            state={"go": _wants_round(decision), "memory": memory, "inputs": _round_inputs(decision)}
        )

    return evaluate


def strategy_methods(strategy: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any]]:
    """The `init` and `dispatch` of a strategy; a plain function is a `dispatch` alone."""
    init, dispatch = getattr(strategy, "init", None), getattr(strategy, "dispatch", None)
    if callable(init) and callable(dispatch):
        return init, dispatch
    if callable(strategy) and init is None and dispatch is None:
        return None, strategy
    missing = "dispatch" if callable(init) else "init"
    raise LookupError(f"{describe_value(strategy)} is not a loop strategy: it has no method '{missing}'")


def describe_value(value: object) -> str:
    """An object of a user's, in an error."""
    plain = value is None or isinstance(value, (str, int, float, list, tuple, dict))
    return f"{value!r:.60}" if plain else f"an object of the class '{type(value).__name__}'"


def _json_copy(memory: dict[str, Any]) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(memory))
    except (TypeError, ValueError, RecursionError) as error:
        raise NodeError(f"what the strategy keeps cannot be written as JSON: {error}") from None
    return copied


def _wants_round(decision: Any) -> bool:
    if decision is None or isinstance(decision, (bool, str, Message, dict, list, tuple)):
        return decision is not None and decision is not False
    raise NodeError(
        f"dispatch gave {describe_value(decision)}; it gives true or false, or what the next round is to get"
    )


def _round_inputs(decision: Any) -> list[Any] | None:
    """What the next round gets, if the strategy says so."""
    if decision is None or isinstance(decision, bool):
        return None
    values = decision if isinstance(decision, (list, tuple)) else [decision]
    return [msgspec.to_builtins(as_message(value, "user")) for value in values]
