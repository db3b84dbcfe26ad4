"""What an agent is given: the task, its own last output, what is new.

A queue holds what has arrived since a node last ran. For an agent in a loop that is not enough: a writer that
gets only the newest criticism has neither the task nor its draft, and a model knows nothing but what it is
sent. So the kernel composes the input of an agent from its queue and from what it remembers of the loop:

    task       the messages that the entry of the innermost loop took in round 1 of this entry; in the body
               of a loop agent the input of that node, or its element of the list
    own        the agent's last output in this entry, as `assistant`
    new        what the queue holds

| policy    | input                                                                          |
|-----------|--------------------------------------------------------------------------------|
| `message` | new                                                                            |
| `task`    | task, own, new                                                                 |
| `history` | task, then for each earlier run what was new and the answer, then new          |

The plan chooses the policy (`NodePlan.context`). Nothing is given twice: in its first run an agent does not
get its task a second time, later not its own words. Outside of loops `task` is `message`, and `history` goes
back to the beginning of the run.

Where it is stored. The memory of an agent belongs to one entry of its innermost loop: to the activation of a
free loop, or to the composite run of a loop agent. It ends with the loop, and loops that run in parallel
never meet. Outside of loops it belongs to the run. There, and only there, executions that run in parallel
could share a memory, and the result would depend on which is quicker; so they remember nothing.

The input is composed when the node is launched, after middleware has seen the queue, and is not stored: a
replay composes it again from the same facts.
"""

from __future__ import annotations

from msgspec import Struct

from roundel.kernel.commands import CallContext
from roundel.kernel.state import Activation, AgentMemory, Execution, Expansion, Run
from roundel.plan.graph import NodePlan
from roundel.workflow.message import Message

Messages = tuple[Message, ...]
NOTHING = AgentMemory()


class _Surroundings(Struct):
    """The loop around an execution, as far as its agents are concerned; outside of loops, the run."""

    task: Messages
    memories: dict[int, AgentMemory] | None
    """Where the memory of the agent is; None if it remembers nothing."""
    key: int
    in_loop: bool


def compose(
    run: Run,
    activation: Activation,
    node: NodePlan,
    queued: Messages,
    part: tuple[Expansion, int] | None,
) -> tuple[Messages, CallContext]:
    """The input of an agent with a context."""
    plan = node.context
    assert plan is not None
    around = _surroundings(run, activation, node, part)
    memory = None if around.memories is None or plan.clears else around.memories.get(around.key)
    task, policy = around.task, plan.policy
    texts = "\n\n".join(message.text for message in task)
    own = (memory or NOTHING).own
    previous = own[-1].text if own else ""
    if policy == "message" or (policy == "task" and not around.in_loop):
        return queued, CallContext(texts, previous, len(queued))
    head = task if around.in_loop else ()
    earlier = own if policy == "task" else (memory or NOTHING).history
    new = _without_repetitions(queued, head, earlier, own, memory is None)
    return (*head, *earlier, *new), CallContext(texts, previous, len(new), len(head))


def remember(run: Run, execution: Execution, answer: Messages) -> None:
    """Stores the answer of an agent, and for a history the input that it was given."""
    node, context = execution.node, execution.context
    if context is None or node.context is None or execution.part is not None:
        return
    around = _surroundings(run, execution.activation, node, None)
    if around.memories is None:
        return
    said = tuple(_as_own(message, node.id) for message in answer if _says_something(message))
    before = around.memories.get(around.key) or NOTHING
    history = (*execution.given[context.head :], *said) if node.context.policy == "history" else ()
    around.memories[around.key] = AgentMemory(said or before.own, history)


def forget(run: Run, activation: Activation, node: NodePlan) -> None:
    """Forgets what an agent said, because an edge with `clear_context` has brought its input."""
    around = _surroundings(run, activation, node, None)
    if around.memories is not None:
        around.memories.pop(around.key, None)


def _surroundings(
    run: Run, activation: Activation, node: NodePlan, part: tuple[Expansion, int] | None
) -> _Surroundings:
    instance = activation.instance
    if activation.parent is not None:
        return _Surroundings(activation.task, None if part else activation.memories, node.index, True)
    composite_run = instance.composite_run
    if composite_run is not None and composite_run.execution.node.gives_task:
        if composite_run.controller.has_independent_rounds:
            return _Surroundings(instance.input[-1:], None, node.index, True)
        memories = None if part else composite_run.memories
        return _Surroundings(composite_run.inputs, memories, node.index, True)
    has_history = node.context is not None and node.context.policy == "history"
    shared = has_history and not (part or _is_parallel(activation))
    return _Surroundings(instance.input, run.memories if shared else None, node.site, False)


def _is_parallel(activation: Activation) -> bool:
    """Whether another execution of the same node may run at the same time."""
    caller = activation.instance.caller
    while caller is not None:
        iteration = activation.instance.iteration
        if caller.part is not None or (iteration is not None and iteration.parallel_index is not None):
            return True
        activation = caller.activation
        caller = activation.instance.caller
    return False


def _without_repetitions(
    queued: Messages, task: Messages, earlier: Messages, own: Messages, is_first: bool
) -> Messages:
    """What is new in a queue. Texts that the agent is given anyway are not, nor is a message that an edge
    keeps in the queue and that the agent has been given before."""
    known = {message.text for message in (task if is_first else own)} - {""}
    given = {_identity(message) for message in (*task, *earlier)}
    return tuple(
        message
        for message in queued
        if message.text not in known and not (message.keep and _identity(message) in given)
    )


def _identity(message: Message) -> tuple[str, object]:
    """Two speakers may say the same, so a message is known by its speaker and its content."""
    return message.source, message.content


def _says_something(message: Message) -> bool:
    return bool(message.text.strip()) or not isinstance(message.content, str)


def _as_own(message: Message, node_id: str) -> Message:
    metadata = {**(message.metadata or {}), "source": node_id}
    return Message(message.content, "assistant", message.data, metadata)
