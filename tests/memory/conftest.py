from __future__ import annotations

from pathlib import Path

import pytest

from roundel.hosts import services
from roundel.llm.script import ScriptedModel
from roundel.nodes.services import Reply, Request, StreamCallback


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """All that models are asked."""
    requests_seen: list[Request] = []

    class Listening(ScriptedModel):
        async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
            requests_seen.append(request)
            return await super().reply(request, say)

    monkeypatch.setattr(services, "ScriptedModel", Listening)
    return requests_seen
