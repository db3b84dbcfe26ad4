"""What may come up in a run beside the units of a scope, which the agenda names by their numbers."""

from __future__ import annotations

NEXT_ROUND = -1
"""Stands in the agenda for a unit: the loop's next round is to begin."""

GRAPH_OVER = -2
"""Stands in the agenda for a unit: the graph has run to its end."""

LOOP_OVER = -3
"""Stands in the agenda for a unit: the loop has ended, and with it a unit of the scope around it."""

RETURN = -4
"""Stands in the agenda for a unit, behind a performance: a body of it has ended out of turn."""

OPEN = -5
"""Stands in the agenda for a unit, behind a performance: it is to begin."""

TURNS = -6
"""Stands in the agenda for a unit, behind a performance: turns of it may start."""

PARTS = -7
"""Stands in the agenda for a unit, behind an expansion: further parts of it may start."""

ERRANDS = -8
"""Stands in the agenda for a unit, behind a talk: its next errands may start."""

QUESTION = -9
"""Stands in the agenda for a unit, behind a performance: its behaviour may be asked."""
