"""A run as it goes, in a terminal or as plain lines."""

from roundel.cli.live.view import LiveView

__all__ = ["LiveView"]
