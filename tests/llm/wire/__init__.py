"""Providers on loopback: tests run the real client libraries against servers that speak the wire."""

from tests.llm.wire.recorded import Recorded
from tests.llm.wire.reply import Reply
from tests.llm.wire.server import Wire

__all__ = ["Recorded", "Reply", "Wire"]
