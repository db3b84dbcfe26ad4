"""Budgets of groups and tokens: exact over processes and crashes, and never a silent stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roundel.journal.spending import Drawn, SharedBudget
from roundel.journal.sqlite import SqliteStore
from roundel.server.identity import Identities
from roundel.workflow.allow_list import AllowedModel
from roundel.workflow.policy import Policy
from roundel.workflow.quotas import Quota, Quotas
from tests.llm.wire import Reply, Wire
from tests.server.api import Server, serving
from tests.server.live import start_server

RUNS, BUDGETS = "/api/v1/runs", "/api/v1/budgets"
KEY = "sk-of-the-operator-0123456789"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
DAY = 86_400
CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"]
LOOP = """
graph:
  id: tea
  start: Writer
  end: Final
  nodes:
    - {id: Writer, type: agent, config: {model: "openai:gpt-4o"}}
    - {id: Guard, type: loop_counter, config: {max_iterations: ROUNDS}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Guard}
    - {from: Writer, to: Writer}
    - {from: Guard, to: Final}
    - {from: Guard, to: Writer}
breaker: false
"""
PAIR = """
graph:
  id: pair
  start: [A, B]
  end: End
  nodes:
    - {id: A, type: agent, config: {model: "openai:gpt-4o"}}
    - {id: B, type: agent, config: {model: "openai:gpt-4o"}}
    - {id: End, type: passthrough}
  edges: [{from: A, to: End}, {from: B, to: End}]
"""
ASKS = """
graph:
  id: asks
  start: Boss
  nodes: [{id: Boss, type: human, config: {description: Go?}}]
"""


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with Wire() as wire:
        wire.replies(Reply("a text", input_tokens=100, output_tokens=50))
        monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield wire


def policy_of(groups: dict[str, Quota] | None = None, tokens: dict[str, Quota] | None = None) -> Policy:
    model = AllowedModel(provider="openai", key="OPENAI_API_KEY")
    return Policy(models=(model,), networks=("127.0.0.0/8",), limits=Quotas(groups or {}, tokens or {}))


class Clock:
    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> float:
        return self.time


def tell(story: Callable[[Server], Awaitable[None]], policy: Policy, **options: Any) -> None:
    async def main() -> None:
        async with serving(policy=policy, **options) as server:
            await story(server)

    asyncio.run(main())


async def start(client: httpx2.AsyncClient, rounds: int = 1, **more: Any) -> httpx2.Response:
    text = more.pop("text", LOOP.replace("ROUNDS", str(rounds)))
    return await client.post(RUNS, json={"workflow": {"text": text}, "input": "go", **more})


async def run(server: Server, client: httpx2.AsyncClient, rounds: int = 1, **more: Any) -> dict[str, Any]:
    """The view of a run when it is idle."""
    answer = await start(client, rounds, **more)
    assert answer.status_code == 202, answer.text
    return await idle(server, client, answer.json()["id"])


async def idle(server: Server, client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    await server.context.runs.engine.wait_until_idle(run_id)
    view: dict[str, Any] = (await client.get(f"{RUNS}/{run_id}")).json()
    return view


async def unlock(client: httpx2.AsyncClient, run_id: str) -> httpx2.Response:
    return await client.post(f"{RUNS}/{run_id}/unlock", json={"reason": "go on", "checks": CHECKS})


async def parts(client: httpx2.AsyncClient) -> dict[str, dict[str, float]]:
    """What is used of each budget, by its name and what it limits."""
    budgets = (await client.get(BUDGETS)).json()["budgets"]
    return {one["name"]: {part["what"]: part["used"] for part in one["parts"]} for one in budgets}


def test_a_group_over_its_budget_locks_the_run_and_refuses_further_starts(wire: Wire) -> None:
    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        view = await run(server, client, 5)
        assert view["status"] == "suspended_locked"
        assert view["lock"]["what"] == "group_limit"
        assert view["lock"]["text"] == "the limit of 3 model calls per day of group ada is reached"
        assert view["lock"]["evidence"] == {
            "limit": 3,
            "what": "model_calls",
            "per": "per day",
            "scope": "group ada",
            "spent": 3,
            "reserved": 0,
            "wanted": 1,
            "resets": "2026-12-01T00:00:00.000Z",
        }
        assert len(wire.requests) == 3
        refused = await start(client)
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == str(DAY // 2)
        assert "the limit of 3 model calls per day of group ada is reached" in refused.json()["detail"]
        fork = await client.post(f"{RUNS}/{view['id']}/fork", json={"at": "Writer[2]/Writer"})
        assert fork.status_code == 429
        assert len(await server.context.runs.list()) == 1
        assert len(wire.requests) == 3
        # Another group has a budget of its own.
        other = await server.client("author", groups=["bob"])
        assert (await run(server, other))["status"] == "completed"

    tell(story, policy_of({"*": Quota(model_calls=3)}), clock=Clock())


def test_an_unlock_needs_room_and_the_call_is_made_once(wire: Wire) -> None:
    clock = Clock()

    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        view = await run(server, client, 5)
        assert (view["status"], len(wire.requests)) == ("suspended_locked", 2)
        early = await unlock(client, view["id"])
        assert early.status_code == 409
        assert "there is room again from 2026-12-01T00:00:00.000Z on" in early.json()["detail"]
        clock.time += DAY
        for calls in (4, 5):
            assert (await unlock(client, view["id"])).status_code == 200
            view = await idle(server, client, view["id"])
            assert len(wire.requests) == calls
            clock.time += DAY
        assert view["status"] == "completed"
        assert [loop["rounds"] for loop in view["results"]] == [5], "no round was lost or repeated"

    tell(story, policy_of({"ada": Quota(model_calls=2)}), clock=clock)


def test_a_raised_limit_lets_a_locked_run_continue(wire: Wire, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}?sync=off"
    found: list[str] = []

    async def before(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        found.append((await run(server, client, 3))["id"])
        assert (await unlock(client, found[0])).status_code == 409

    async def after(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        assert (await unlock(client, found[0])).status_code == 200
        assert (await idle(server, client, found[0]))["status"] == "completed"
        assert await parts(client) == {"ada": {"tokens": 450}}

    tell(before, policy_of({"ada": Quota(tokens=200, per="total")}), store=store)
    tell(after, policy_of({"ada": Quota(tokens=1000, per="total")}), store=store)


def test_days_and_months_begin_anew_in_utc(wire: Wire) -> None:
    clock = Clock()

    async def story(server: Server) -> None:
        days, months = [await server.client("author", groups=[name]) for name in ("days", "months")]
        for client in (days, months):
            assert (await run(server, client, 2))["status"] == "completed"
            assert (await start(client)).status_code == 429
        clock.time = NOON + DAY // 2 - 1
        assert [(await start(client)).status_code for client in (days, months)] == [429, 429]
        clock.time += 1  # the first of December
        assert [(await run(server, client))["status"] for client in (days, months)] == ["completed"] * 2
        clock.time += DAY
        assert await parts(days) == {"days": {"model_calls": 0}}
        assert await parts(months) == {"months": {"model_calls": 1}}

    tell(
        story,
        policy_of({"days": Quota(model_calls=2), "months": Quota(model_calls=2, per="month")}),
        clock=clock,
    )


def test_parallel_calls_never_exceed_a_budget_together(wire: Wire) -> None:
    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        view = await run(server, client, text=PAIR)
        assert (view["status"], len(wire.requests)) == ("suspended_locked", 1)
        assert await parts(client) == {"ada": {"model_calls": 1}}

    tell(story, policy_of({"ada": Quota(model_calls=1)}))


def test_the_cost_counts_at_the_listed_price_whatever_a_text_says(wire: Wire) -> None:
    text = LOOP.replace("ROUNDS", "1").replace(
        'config: {model: "openai:gpt-4o"}', "config: {profile_id: free}"
    )
    profile = 'models: {free: {model: "openai:gpt-4o", price: {input: 0, output: 0}}}\n'

    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        assert (await run(server, client))["status"] == "completed"
        cost = (await parts(client))["ada"]["cost_usd"]
        assert cost > 0
        assert (await run(server, client, text=profile + text))["status"] == "completed"
        assert (await parts(client))["ada"]["cost_usd"] == pytest.approx(2 * cost)

    tell(story, policy_of({"ada": Quota(cost_usd=1)}))


def test_scripted_runs_draw_nothing(wire: Wire) -> None:
    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        view = await run(server, client, 4, script={"Writer": "hello"})
        assert (view["status"], wire.requests) == ("completed", [])
        assert await parts(client) == {"ada": {"model_calls": 0}}
        fork = await client.post(f"{RUNS}/{view['id']}/fork", json={"at": "Writer[2]/Writer"})
        assert fork.status_code == 201

    tell(story, policy_of({"ada": Quota(model_calls=0)}))


def test_failed_and_cancelled_calls_are_booked(wire: Wire) -> None:
    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        wire.replies(Reply(status=401))
        assert (await run(server, client))["status"] == "failed"
        assert await parts(client) == {"ada": {"model_calls": 1, "tokens": 0}}
        wire.replies(Reply("late", delay=3600))
        answer = await start(client)
        while len(wire.requests) < 2:  # noqa: ASYNC110 (the wire is another thread)
            await asyncio.sleep(0.01)
        budgets = (await client.get(BUDGETS)).json()["budgets"][0]["parts"]
        assert budgets[0]["reserved"] == 1
        wanted = budgets[1]["reserved"]
        assert wanted > 0
        assert (await client.post(f"{RUNS}/{answer.json()['id']}/stop", json={})).status_code == 200
        assert await parts(client) == {"ada": {"model_calls": 2, "tokens": wanted}}

    tell(story, policy_of({"ada": Quota(model_calls=10, tokens=10_000)}))


def test_a_token_has_a_budget_of_its_own(wire: Wire) -> None:
    async def story(server: Server) -> None:
        robot = await server.client("author", groups=["ada"], name="robot")
        person = await server.client("author", groups=["ada"], name="person")
        view = await run(server, robot, 3)
        assert view["lock"]["text"] == "the limit of 1 model calls per day of token robot is reached"
        assert (await start(robot)).status_code == 429
        assert (await run(server, person, 3))["status"] == "completed"
        # Who forks a run of somebody else pays for the fork.
        fork = await robot.post(f"{RUNS}/{view['id']}/fork", json={"at": "Writer[1]/Writer"})
        assert fork.status_code == 429
        fork = await person.post(f"{RUNS}/{view['id']}/fork", json={"at": "Writer[1]/Writer"})
        assert fork.status_code == 201
        assert (await idle(server, person, fork.json()["id"]))["status"] == "completed"
        assert await parts(robot) == {"robot": {"model_calls": 1}}
        assert await parts(person) == {"person": {"model_calls": 6}}
        admin = await server.client("admin")
        assert (await parts(admin)).keys() == {"robot", "person", "admin"}

    tell(story, policy_of(tokens={"*": Quota(model_calls=100), "robot": Quota(model_calls=1)}))


def test_runs_at_once_are_limited(wire: Wire) -> None:
    async def story(server: Server) -> None:
        client = await server.client("author", groups=["ada"])
        # A run that waits for people is not running.
        waiting = await run(server, client, text=ASKS)
        assert waiting["status"] == "waiting"
        wire.replies(Reply("late", delay=3600))
        first = await start(client)
        assert first.status_code == 202
        refused = await start(client)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert "the limit of 1 runs at once of group ada is reached" in refused.json()["detail"]
        assert await parts(client) == {"ada": {"runs": 1}}
        # The answer of a person is never refused.
        answer = await client.post(f"{RUNS}/{waiting['id']}/answer", json={"text": "yes"})
        assert answer.status_code == 200
        await client.post(f"{RUNS}/{first.json()['id']}/stop", json={})
        wire.replies(Reply("a text"))
        assert (await run(server, client))["status"] == "completed"

    tell(story, policy_of({"*": Quota(runs=1)}))


def test_callers_see_the_budgets_of_their_groups_and_their_token(wire: Wire) -> None:
    async def story(server: Server) -> None:
        ada = await server.client("author", groups=["ada"], name="robot")
        assert (await run(server, ada))["status"] == "completed"
        viewer = await server.client("viewer", groups=["bob"])
        admin = await server.client("admin")
        assert (await parts(viewer)).keys() == {"bob"}
        assert (await parts(admin)).keys() == {"ada", "robot"}
        found = (await ada.get(BUDGETS)).json()["budgets"]
        assert found[0] == {
            "kind": "group",
            "name": "ada",
            "token": "",
            "per": "month",
            "resets": "2026-12-01T00:00:00.000Z",
            "parts": [
                {"what": "runs", "limit": 5, "used": 0, "reserved": 0},
                {"what": "tokens", "limit": 1000, "used": 150, "reserved": 0},
            ],
        }

    policy = policy_of({"*": Quota(runs=5, tokens=1000, per="month")}, {"robot": Quota(model_calls=9)})
    tell(story, policy, clock=Clock())


def test_without_limits_nothing_is_kept(wire: Wire, tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await server.client("author")
        assert (await run(server, client))["status"] == "completed"
        assert (await client.get(BUDGETS)).json() == {"budgets": []}
        assert await server.context.runs.store.spenders() == []

    tell(story, policy_of(), store=f"sqlite:///{tmp_path / 'runs.db'}?sync=off")


class Place:
    """A store with limits, for servers in processes of their own."""

    def __init__(self, folder: Path, wire: Wire, calls: int) -> None:
        self.store, self.allow = folder / "runs.db", folder / "allow.yaml"
        self.environment = {"OPENAI_BASE_URL": wire.openai_url, "OPENAI_API_KEY": KEY}
        self.allow.write_text(
            "models: [{provider: openai, key: OPENAI_API_KEY}]\nnetworks: [127.0.0.0/8]\n"
            f"limits: {{groups: {{ada: {{model_calls: {calls}, per: total}}}}}}\n"
        )

    async def token(self) -> str:
        store = SqliteStore(self.store)
        made = await Identities(store.documents()).create_token("robot", "author", ["ada"])
        await store.close()
        return made.secret

    async def drawn(self) -> Drawn:
        store = SqliteStore(self.store)
        (found,) = await store.drawn([SharedBudget("group:ada", "", {})])
        await store.close()
        return found

    async def statuses(self) -> dict[str, int]:
        store = SqliteStore(self.store)
        totals = await store.totals()
        await store.close()
        return totals.statuses

    async def idle(self) -> dict[str, int]:
        while "running" in (found := await self.statuses()):  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.05)
        return found


def test_two_servers_never_exceed_a_budget_together(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply("a text", delay=0.01))

    async def main() -> None:
        place = Place(tmp_path, wire, 17)
        headers = {"authorization": f"Bearer {await place.token()}"}
        servers = [
            await start_server(place.store, "--allow", str(place.allow), environment=place.environment)
            for _ in range(2)
        ]
        try:
            for server in [*servers, *servers]:
                async with httpx2.AsyncClient(
                    base_url=server.address, headers=headers, timeout=120
                ) as client:
                    answers = [await start(client, 10) for _ in range(2)]
                assert {answer.status_code for answer in answers} <= {202, 429}
            await place.idle()
        finally:
            for server in servers:
                await server.end()
        assert len(wire.requests) == 17, "all that fits is made, and nothing else"
        found = await place.drawn()
        assert (found.used.model_calls, found.reserved.model_calls) == (17, 0)

    asyncio.run(main())


def test_a_kill_between_reservation_and_result_loses_and_repeats_nothing(wire: Wire, tmp_path: Path) -> None:
    wire.replies(Reply("late", delay=3600))

    async def main() -> None:
        place = Place(tmp_path, wire, 3)
        headers = {"authorization": f"Bearer {await place.token()}"}
        for _ in range(2):
            server = await start_server(
                place.store, "--allow", str(place.allow), environment=place.environment
            )
            seen = len(wire.requests)
            if not seen:
                async with httpx2.AsyncClient(
                    base_url=server.address, headers=headers, timeout=120
                ) as client:
                    assert (await start(client, 3)).status_code == 202
            while len(wire.requests) == seen:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.01)
            await server.end(signal.SIGKILL)
            found = await place.drawn()
            assert (found.used.model_calls, found.reserved.model_calls) == (0, 1)
        wire.replies(Reply("a text"))
        server = await start_server(place.store, "--allow", str(place.allow), environment=place.environment)
        try:
            assert await place.idle() == {"completed": 1}
        finally:
            await server.end()
        found = await place.drawn()
        assert (found.used.model_calls, found.reserved.model_calls) == (3, 0)

    asyncio.run(main())
