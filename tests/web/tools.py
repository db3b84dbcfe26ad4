"""Tools of the samples. Scripts replace their results; the server imports them for their signatures."""

from __future__ import annotations


def read_offer(id: int) -> str:
    """Reads the offer of a supplier."""
    return f"offer {id}"


def send_mail(to: str, subject: str, body: str, attach: list[str] | None = None) -> str:
    """Sends a mail to a supplier."""
    return f"sent '{subject}' to {to} ({len(body)} characters, {len(attach or [])} files)"


def run_tests(path: str, timeout: int = 20) -> str:
    """Runs the tests in a file."""
    return f"{path}: passed within {timeout} s"
