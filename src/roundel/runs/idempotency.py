"""Idempotent starts: a caller who does not know whether a start succeeded repeats it with the same key, and
gets the same run.

The key is a document of the store that names the run (journal/documents.py). It is written before the run is
created, under the condition that it does not exist, so of several starts with one key, in any number of
processes, exactly one chooses the id of the run. A crash in between leaves a key whose run does not exist. A
client that repeats the start finds it and creates the run under the same id, and `Store.create` refuses all
but one of those who try. So there is never a second run, and no run without a key that leads to it.

A key means nothing without its content: the document has a digest of everything that the start was given. A
caller who uses a key again for something else made a mistake, and gets IdempotencyConflict instead of a run
that it did not ask for.

*What is stored.* Variables and inputs may contain secrets, and short secrets could be guessed from a digest.
So the digest is keyed by the caller's key, which is not stored itself, but only as a digest.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from roundel.hosts.stored_run import new_run_id
from roundel.journal.documents import DocumentConflict
from roundel.journal.store import NoRun, RunExists, Store, StoreError

COLLECTION = "idempotency"
KEPT_SECONDS = 24 * 3600.0
"""How long a key leads to its run."""


class IdempotencyConflict(StoreError):
    """A key was used again to start something else."""


class StartKey:
    """The key of one start, and the digest of its content. Created by `Runs.start`.

    Callers have their own keys: `started_by` is part of it, so nobody can guess the key of another caller
    and find out what that caller started."""

    def __init__(self, key: str, started_by: str, content: Any) -> None:
        """`content` is everything that the start was given, as far as it decides what the run does."""
        secret = _digest([started_by, key])
        self.document = hashlib.blake2b(secret, digest_size=32).hexdigest()
        self.digest = hashlib.blake2b(_encode(content), key=secret, digest_size=32).hexdigest()


def _encode(content: Any) -> bytes:
    return msgspec.json.encode(content, enc_hook=repr, order="sorted")


def _digest(content: Any) -> bytes:
    return hashlib.blake2b(_encode(content), digest_size=32).digest()


async def start_once(store: Store, key: StartKey, start: Callable[[str], Awaitable[str]]) -> str:
    """The id of the run that was first started with a key; calls `start` with an id if there is none yet.
    IdempotencyConflict if the content differs."""
    documents = store.documents()
    run_id: str
    while True:
        found = await documents.get(COLLECTION, key.document)
        if found is None:
            run_id, expires = new_run_id(), time.time() + KEPT_SECONDS
            body = {"run": run_id, "digest": key.digest}
            try:
                await documents.put(COLLECTION, key.document, body, expected=0, expires=expires)
            except DocumentConflict:
                continue  # another one was faster; its document is there now
        else:
            run_id = found.body["run"]
            if not hmac.compare_digest(found.body["digest"], key.digest):
                raise IdempotencyConflict(
                    f"this idempotency key was used to start run {run_id} with another workflow, input or "
                    "options; use a new key"
                )
            if await _exists(store, run_id):
                return run_id
        try:
            return await start(run_id)
        except RunExists:  # created meanwhile by another start with the same key
            return run_id


async def _exists(store: Store, run_id: str) -> bool:
    try:
        await store.row(run_id)
    except NoRun:
        return False
    return True
