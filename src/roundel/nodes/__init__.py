"""Node types, one module each: what may be set, what the node does, by which ports it is left."""

from roundel.nodes import (
    agent,
    debate,
    human,
    jump,
    literal,
    loop,
    loop_agent,
    loop_counter,
    loop_timer,
    passthrough,
    python,
    subgraph,
    vote,
)
from roundel.workflow.node_type import NodeTypes

_MODULES = (
    *(agent, human, passthrough, literal, python, subgraph),
    *(loop, loop_counter, loop_timer, loop_agent, debate, vote),
)

TYPES = NodeTypes([*(module.NODE for module in _MODULES), jump.BREAK, jump.CONTINUE])
