"""By meaning: vectors of a server that speaks the protocol of OpenAI."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import services
from roundel.llm.script import ScriptedModel, script_from
from roundel.memory.search import cosine, pack_vector
from roundel.nodes.services import Reply, Request, StreamCallback
from tests.journal.stores import query
from tests.memory.memory_runs import agents, do, troubles

MEANINGS = {"dog": (1, 0, 0), "puppy": (0.9, 0.1, 0), "car": (0, 1, 0), "lorry": (0.1, 0.95, 0)}
KEY = "sk-embedding-0123456789"


class Server:
    """Gives texts with the same meaning vectors of the same direction."""

    def __init__(self) -> None:
        self.requests_seen: list[list[str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.status = 200

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        self.requests_seen.append(texts)
        self.bodies.append(body)
        data = [
            {"object": "embedding", "index": number, "embedding": list(_vector(text))}
            for number, text in enumerate(texts)
        ]
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _vector(text: str) -> tuple[float, ...]:
    return next((vector for word, vector in MEANINGS.items() if word in text), (0, 0, 1))


@contextmanager
def serving(server: Server) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reported: Any = server.answer(body)
            if server.status != 200:
                reported = {"error": {"message": f"no: {self.headers['Authorization']}", "type": "x"}}
            data = json.dumps(reported).encode()
            self.send_response(server.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/v1"
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with serving(server) as address:
        yield address


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What models were shown; they are scripted, but nobody knows: to the run they are real ones."""
    requests_seen: list[list[str]] = []

    class Real(ScriptedModel):
        async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
            text = request.messages[0].text if len(request.messages) > 1 else ""
            lines = [line.partition("] ")[2] for line in text.splitlines() if line.startswith("[")]
            requests_seen.append(lines)
            return await super().reply(request, say)

    monkeypatch.setenv("ROUNDEL_MODEL", "openai:real")
    monkeypatch.setattr(services.NodeServices, "model", lambda self, node: Real(script_from({"*": ["ok"]})))
    return requests_seen


def embedding(url: str, **more: Any) -> dict[str, Any]:
    return {"model": "small", "base_url": url, "api_key": KEY, **more}


def flow(url: str, kind: str = "long_term", path: str = "", **use: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"embedding": embedding(url)}
    if path:
        config["memory_path" if kind == "simple" else "file_sources"] = (
            path if kind == "simple" else {"path": path}
        )
    memory = {"name": "m", "type": kind, "config": config}
    made = agents({"name": "m", "write": False, **use}, memory=[memory], group="team")
    made["memory"]["timeout"] = 60
    return made


def run(workflow: Any, store: Path, question: str) -> list[roundel.Event]:
    events: list[roundel.Event] = []
    result = roundel.run(workflow, question, store=store, on_event=events.append)
    assert result.completed, result.error
    return events


def promote(store: Path, *texts: str) -> None:
    async def work() -> None:
        async with roundel.Memory(store) as memory:
            for text in texts:
                await memory.promote("team", text=text)

    do(work())


def test_entries_are_found_by_meaning(store: Path, server: Server, url: str, shown: list[list[str]]) -> None:
    promote(store, "a dog barks", "a car drives", "nothing of both")
    assert troubles(run(flow(url), store, "the puppy")) == []
    assert shown[-1] == ["a dog barks", "a car drives", "nothing of both"]
    run(flow(url, similarity_threshold=0.5), store, "the puppy")
    assert shown[-1] == ["a dog barks"]
    run(flow(url, top_k=1), store, "the lorry")
    assert shown[-1] == ["a car drives"]
    # The entries were asked about once, the questions each time.
    assert [len(texts) for texts in server.requests_seen] == [3, 1, 1, 1]


def test_only_new_entries_are_embedded(store: Path, server: Server, url: str, shown: list[list[str]]) -> None:
    promote(store, *(f"dog {number}" for number in range(70)))
    run(flow(url), store, "puppy")
    promote(store, "a car", "dog 3")
    run(flow(url), store, "lorry")
    assert shown[-1][0] == "a car"
    assert [len(texts) for texts in server.requests_seen] == [64, 6, 1, 1, 1]
    ((size,),) = query(store, "SELECT DISTINCT length(vector) FROM memory_vectors")
    assert size == 3 * 4


def test_concurrent_agents_embed_each_entry_once(
    store: Path, server: Server, url: str, shown: list[list[str]]
) -> None:
    promote(store, "a dog", "a car")
    workflow = flow(url, top_k=1)
    workflow["graph"]["nodes"] = [{**workflow["graph"]["nodes"][0], "id": name} for name in ("A", "B", "C")]
    workflow["graph"] |= {"start": ["A", "B", "C"], "end": ["A", "B", "C"]}
    run(workflow, store, "puppy")
    assert shown == [["a dog"]] * 3
    requests_seen = [text for texts in server.requests_seen for text in texts]
    assert sorted(requests_seen) == ["a car", "a dog", "puppy", "puppy", "puppy"]


def test_files_and_imported_json_are_embedded(store: Path, url: str, shown: list[list[str]]) -> None:
    Path("animals.txt").write_text("a dog barks", encoding="utf-8")
    run(flow(url, "file", "animals.txt"), store, "puppy")
    assert shown[-1] == ["a dog barks"]
    Path("notes.json").write_text(json.dumps(["a car drives", "a dog sleeps"]), encoding="utf-8")
    run(flow(url, "simple", "notes.json", top_k=1), store, "puppy")
    assert shown[-1] == ["a dog sleeps"]


def test_embedding_failure_is_reported_without_the_key(
    store: Path, server: Server, url: str, shown: list[list[str]]
) -> None:
    promote(store, "a dog barks")
    server.status = 400
    (trouble,) = troubles(run(flow(url), store, "puppy"))
    assert trouble["store"] == "m"
    assert "openai:small gave no vectors" in trouble["error"] and KEY not in trouble["error"]
    assert shown[-1] == []


def test_vector_size_can_be_configured(store: Path, server: Server, url: str, shown: list[list[str]]) -> None:
    memory = {"name": "m", "type": "long_term", "config": {"embedding": embedding(url, params=_PARAMS)}}
    promote(store, "a dog barks")
    run(agents("m", memory=[memory], group="team"), store, "puppy")
    assert {body["dimensions"] for body in server.bodies} == {3}
    assert all("chunk_strategy" not in body for body in server.bodies)
    assert query(store, "SELECT model FROM memory_vectors") == [("openai:small:3",)]


_PARAMS = {"dimensions": 3, "chunk_strategy": "weighted"}


def test_scripted_run_uses_word_search_instead_of_embeddings(store: Path, server: Server, url: str) -> None:
    promote(store, "a dog barks")
    made = flow(url)
    made["graph"]["nodes"][0]["config"]["input_mode"] = "prompt"
    for question, found in (("dog", True), ("puppy", False)):
        result = roundel.run(made, question, script={}, store=store)
        assert ("[1] a dog barks" in result.output) is found
    assert server.requests_seen == []


def test_local_embeddings_need_a_package(
    store: Path, shown: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.embeddings.sentence_transformers", None)
    promote(store, "a dog barks")
    config = {"embedding": {"provider": "local", "model": "x"}}
    memory = {"name": "m", "type": "long_term", "config": config}
    (trouble,) = troubles(run(agents("m", memory=[memory], group="team"), store, "dog"))
    assert "local:x cannot be used" in trouble["error"] and "sentence-transformers" in trouble["error"]


def test_missing_embedding_key_is_reported(
    store: Path, shown: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    promote(store, "a dog barks")
    memory = {"name": "m", "type": "long_term", "config": {"embedding": {"model": "small"}}}
    (trouble,) = troubles(run(agents("m", memory=[memory], group="team"), store, "dog"))
    assert "there is no key; set OPENAI_API_KEY" in trouble["error"]


def test_the_cosine() -> None:
    assert cosine(pack_vector((1, 0)), pack_vector((2, 0))) == pytest.approx(1)
    assert cosine(pack_vector((1, 0)), pack_vector((0, 1))) == pytest.approx(0)
    assert cosine(pack_vector((1, 1)), pack_vector((-1, -1))) == pytest.approx(-1)
    assert cosine(pack_vector((0, 0)), pack_vector((1, 0))) == 0
    assert cosine(pack_vector((1,)), pack_vector((1, 0))) == 0


def test_embedding_cost_is_counted_and_reported(tmp_path: Path, url: str, shown: list[list[str]]) -> None:
    """Twice three words of entries and of the question, then the question alone."""
    store, workflow = tmp_path / "runs.db", flow(url)
    workflow["models"] = {
        "vectors": {"provider": "openai", "name": "small", "price": {"input": 2, "output": 0}}
    }
    promote(store, "a dog barks", "a car stops")
    for tokens in (9, 3):
        events = run(workflow, store, "where is puppy")
        (used,) = [event.fields() for event in events if event.event == "aside_usage"]
        assert used["model"] == "openai:small"
        assert (used["purpose"], used["input_tokens"]) == ("embedding", tokens)
        assert used["cost_usd"] == pytest.approx(2e-6 * tokens)
        total = events[-1].fields()["usage"]
        assert (total["model_calls"], total["input_tokens"]) == (1, tokens)
        assert total["cost_usd"] == pytest.approx(2e-6 * tokens)


def test_embeddings_count_against_the_budget(tmp_path: Path, url: str, shown: list[list[str]]) -> None:
    store, workflow = tmp_path / "runs.db", flow(url)
    workflow["limits"] = {"tokens": 8}
    nodes = workflow["graph"]["nodes"]
    nodes.append({**nodes[0], "id": "Second"})
    workflow["graph"]["edges"] = [{"from": nodes[0]["id"], "to": "Second"}]
    promote(store, "a dog barks", "a car stops")
    result = roundel.run(workflow, "where is puppy", store=store)
    assert result.status == "suspended_locked"
    assert result.usage["input_tokens"] == 9
