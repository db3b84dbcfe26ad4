"""Node types, one module each: what may be set, what the node does, by which ports it is left."""

from roundel.nodes import (
    agent,
    human,
    literal,
    loop_counter,
    loop_timer,
    passthrough,
    python,
    subgraph,
)
from roundel.workflow.node_type import NodeTypes

TYPES = NodeTypes(
    module.NODE for module in (agent, human, passthrough, literal, python, subgraph, loop_counter, loop_timer)
)
