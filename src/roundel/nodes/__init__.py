"""Node types, one module each: what may be set, what the node does, by which ports it is left."""

from roundel.nodes import (
    agent,
    human,
    jump,
    literal,
    loop_agent,
    loop_counter,
    loop_timer,
    passthrough,
    python,
    subgraph,
)
from roundel.workflow.node_type import NodeTypes

_MODULES = (agent, human, passthrough, literal, python, subgraph, loop_counter, loop_timer, loop_agent)

TYPES = NodeTypes([*(module.NODE for module in _MODULES), jump.BREAK, jump.CONTINUE])
