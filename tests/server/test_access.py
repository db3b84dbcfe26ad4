"""Signing in, tokens, and the audit log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest

from roundel.kernel.events import stamp
from roundel.server.identity import ROLES, SESSION_SECONDS, MakerRevoked
from roundel.server.routes import access
from roundel.server.sign_in import MAX_ADDRESSES, MAX_FAILURES, WINDOW_SECONDS, FailureLimiter
from tests.server.api import BASE, Server, serving
from tests.server.live import loop_text

ORIGIN = {"origin": BASE}


def story(work: Callable[[Server], Any], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def test_browser_signs_in_with_the_printed_address() -> None:
    async def work(server: Server) -> None:
        code = await server.context.identities.create_code("first browser")
        browser = await server.anyone()
        answer = await browser.get("/login", params={"code": code})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = SimpleCookie(answer.headers["set-cookie"])["roundel_session_8420"]
        assert cookie["httponly"] and cookie["samesite"] == "strict" and cookie["path"] == "/"
        assert not cookie["secure"] and not cookie["domain"]
        me = await browser.get("/api/v1/me")
        assert me.json() == {"name": "first browser", "role": "admin", "groups": None, "expires": None}
        other = await server.anyone()
        again = await other.get("/login", params={"code": code})
        assert again.status_code == 401 and "roundel token create" in again.text
        assert again.headers["content-type"].startswith("text/plain") and "set-cookie" not in again.headers

    story(work)


def test_cookie_is_bound_to_the_host_under_tls() -> None:
    async def work(server: Server) -> None:
        issued = await server.context.identities.create_token("ann", "viewer", None)
        browser = await server.anyone()
        browser.base_url = "https://127.0.0.1:8420"
        answer = await browser.post("/api/v1/session", json={"token": issued.secret})
        assert answer.status_code == 200
        cookie = SimpleCookie(answer.headers["set-cookie"])["__Host-roundel_session_8420"]
        assert cookie["secure"] and cookie["path"] == "/" and not cookie["domain"]
        assert (await browser.get("/api/v1/me")).status_code == 200
        value = cookie.value
        plain = await server.anyone(cookie=f"roundel_session_8420={value}")
        plain.base_url = "https://127.0.0.1:8420"
        assert (await plain.get("/api/v1/me")).status_code == 401, "a cookie that anybody could set"

    story(work)


def test_two_browsers_with_one_code_get_one_session() -> None:
    async def work(server: Server) -> None:
        code = await server.context.identities.create_code("first browser")
        browsers = [await server.anyone() for _ in range(5)]
        answers = await asyncio.gather(
            *(browser.post("/api/v1/session", json={"code": code}) for browser in browsers)
        )
        assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401, 401]

    story(work)


def test_signing_out_ends_the_session() -> None:
    async def work(server: Server) -> None:
        issued = await server.context.identities.create_token("ann", "viewer", ["red"])
        browser = await server.anyone()
        answer = await browser.post("/api/v1/session", json={"token": issued.secret})
        assert answer.json()["groups"] == ["red"]
        value = SimpleCookie(answer.headers["set-cookie"])["roundel_session_8420"].value
        assert (await browser.delete("/api/v1/session")).status_code == 403, "no origin"
        assert (await browser.delete("/api/v1/session", headers=ORIGIN)).status_code == 204
        assert not browser.cookies
        thief = await server.anyone(cookie=f"roundel_session_8420={value}")
        assert (await thief.get("/api/v1/me")).status_code == 401

    story(work)


def test_session_ends_with_its_token() -> None:
    async def work(server: Server) -> None:
        admin = await server.client("admin")
        issued = await server.context.identities.create_token("ann", "viewer", None)
        browser = await server.anyone()
        await browser.post("/api/v1/session", json={"token": issued.secret})
        assert (await browser.get("/api/v1/me")).status_code == 200
        assert (await admin.delete(f"/api/v1/tokens/{issued.id}")).status_code == 204
        assert (await browser.get("/api/v1/me")).status_code == 401
        assert (await admin.delete(f"/api/v1/tokens/{issued.id}")).status_code == 404

    story(work)


def test_sessions_codes_and_tokens_expire() -> None:
    clock = Clock()

    async def work(server: Server) -> None:
        identities = server.context.identities
        short = await identities.create_token("short", "viewer", None, clock.now + 60)
        forever = await identities.create_token("forever", "viewer", None)
        code = await identities.create_code("late")
        first, second = await server.anyone(), await server.anyone()
        await first.post("/api/v1/session", json={"token": short.secret})
        await second.post("/api/v1/session", json={"token": forever.secret})
        clock.now += 61
        assert (await first.get("/api/v1/me")).status_code == 401, "its token has expired"
        assert (await second.get("/api/v1/me")).status_code == 200
        assert await identities.verify_token(short.secret) is None
        clock.now += 3600
        assert await identities.redeem_code(code) is None
        clock.now += SESSION_SECONDS
        assert (await second.get("/api/v1/me")).status_code == 401

    story(work, clock=clock)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": "a", "token": "b"},
        {"code": ""},
        {"code": None},
        {"token": "x" * 201},
        {"token": 1},
        [],
        "x",
    ],
)
def test_a_sign_in_is_one_credential(body: Any) -> None:
    async def work(server: Server) -> None:
        answer = await (await server.anyone()).post("/api/v1/session", json=body)
        assert answer.status_code == 422 and "set-cookie" not in answer.headers

    story(work)


def test_failed_sign_ins_are_audited_and_limited() -> None:
    """Only failures are refused: one client must not lock out all others of its address."""

    async def work(server: Server) -> None:
        guesser, admin = await server.anyone(), await server.client("admin")
        for number in range(MAX_FAILURES):
            if number % 2:
                answer = await guesser.get("/login", params={"code": "abc_def"})
            else:
                answer = await guesser.post("/api/v1/session", json={"token": "rdl_abc_def"})
            assert answer.status_code == 401
        refused = await guesser.post("/api/v1/session", json={"code": "abc_def"})
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        assert (await guesser.get("/login", params={"code": "abc_def"})).status_code == 429
        entries = (await admin.get("/api/v1/audit")).json()["entries"]
        assert [one["action"] for one in entries] == ["session.refused"] * MAX_FAILURES
        assert entries[0]["who"] is None and entries[0]["details"]["address"] == "127.0.0.1"
        assert "abc_def" not in str(entries), "what was tried may be nearly right"
        issued = await server.context.identities.create_token("ann", "viewer", None)
        valid = await (await server.anyone()).post("/api/v1/session", json={"token": issued.secret})
        assert valid.status_code == 200, valid.text
        code = await server.context.identities.create_code("late")
        assert (await (await server.anyone()).get("/login", params={"code": code})).status_code == 303
        assert (await guesser.get("/login", params={"code": code})).status_code == 429, "it is used up"

    story(work)


def test_limiter_forgets_with_time_and_has_bounded_memory() -> None:
    now = 0.0
    limiter = FailureLimiter(lambda: now)
    for _ in range(MAX_FAILURES):
        assert not limiter.wait_seconds("10.0.0.1")
        limiter.note_failure("10.0.0.1")
    assert limiter.wait_seconds("10.0.0.1") > 0
    assert limiter.wait_seconds("::ffff:10.0.0.1") > 0, "the same address"
    assert not limiter.wait_seconds("10.0.0.2")
    for number in range(MAX_FAILURES):
        limiter.note_failure(f"2001:db8::{number:x}")
    assert limiter.wait_seconds("2001:db8::ffff") > 0, "the same network"
    assert not limiter.wait_seconds("2001:db9::1")
    now += WINDOW_SECONDS
    assert not limiter.wait_seconds("10.0.0.1")
    for number in range(MAX_ADDRESSES + 100):
        limiter.note_failure(f"name-{number}")
    assert len(limiter) == MAX_ADDRESSES


def test_tokens_are_created_listed_and_revoked() -> None:
    async def work(server: Server) -> None:
        admin = await server.client("admin", name="root")
        body = {"name": "ci", "role": "operator", "groups": ["red"], "expires_in": 3600}
        answer = await admin.post("/api/v1/tokens", json=body)
        assert answer.status_code == 201
        created = answer.json()
        assert answer.headers["location"] == f"/api/v1/tokens/{created['id']}"
        program = await server.anyone(authorization=f"Bearer {created['secret']}")
        me = (await program.get("/api/v1/me")).json()
        assert (me["name"], me["role"], me["groups"]) == ("ci", "operator", ["red"]) and me["expires"]
        listed = await admin.get("/api/v1/tokens")
        assert {one["name"] for one in listed.json()["tokens"]} == {"root", "ci"}
        assert created["secret"] not in listed.text and "digest" not in listed.text
        assert (await program.get("/api/v1/tokens")).status_code == 403
        assert (await admin.delete(f"/api/v1/tokens/{created['id']}")).status_code == 204
        assert (await program.get("/api/v1/me")).status_code == 401
        actions = [one["action"] for one in (await admin.get("/api/v1/audit")).json()["entries"]]
        assert actions == ["token.revoke", "token.create"]
        stored = await server.context.documents.list("tokens")
        assert created["secret"].rpartition("_")[2] not in str(stored)

    story(work)


def test_the_audit_log_is_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    async def work(server: Server) -> None:
        admin, other = await server.client("admin"), await server.client("admin", name="ada")
        for number in range(7):
            caller = other if number % 3 == 0 else admin
            await caller.post("/api/v1/tokens", json={"name": f"t{number}", "role": "viewer"})
            clock.now += 10

        async def named(**query: Any) -> list[str]:
            found: list[dict[str, Any]] = []
            cursor: str | None = ""
            while cursor is not None:
                answer = await admin.get("/api/v1/audit", params={**query, "cursor": cursor})
                assert answer.status_code == 200, answer.text
                found += answer.json()["entries"]
                cursor = answer.json()["next"]
            return [one["subject"] for one in found if one["action"] == "token.create"]

        everything = [f"t{number}" for number in reversed(range(7))]
        assert await named() == everything
        assert await named(by="ada", limit=2) == ["t6", "t3", "t0"]
        assert await named(by="nobody") == []
        assert await named(action="token.create", limit=3) == everything
        assert await named(action="token.revoke") == []
        assert await named(subject="t4") == ["t4"]
        assert await named(since=stamp(clock.now - 25)) == ["t6", "t5"]
        # One request does not read the whole log.
        monkeypatch.setattr(access, "AUDIT_PAGES", 1)
        assert await named(by="ada", limit=1) == ["t6", "t3", "t0"]

    story(work, clock=clock)


def test_lists_have_pages() -> None:
    async def work(server: Server) -> None:
        admin = await server.client("admin")
        for number in range(5):
            await admin.post("/api/v1/tokens", json={"name": f"t{number}", "role": "viewer"})
        for path, key in (("/api/v1/tokens", "tokens"), ("/api/v1/audit", "entries")):
            found, cursor = [], ""
            while True:
                page = (await admin.get(path, params={"limit": 2, "cursor": cursor})).json()
                assert len(page[key]) <= 2
                found += page[key]
                if page["next"] is None:
                    break
                cursor = page["next"]
            everything = (await admin.get(path)).json()[key]
            assert found == everything and len(found) >= 5

    story(work)


def test_nobody_creates_more_rights_than_their_own() -> None:
    clock = Clock()

    async def work(server: Server) -> None:
        red = await server.client("admin", groups=["red"])
        for wanted in (None, ["red"]):
            body = {"name": "x", "role": "admin", "groups": wanted}
            answer = await red.post("/api/v1/tokens", json=body)
            assert answer.status_code == 201 and answer.json()["groups"] == ["red"]
        for groups in (["blue"], ["red", "blue"], [""]):
            body = {"name": "x", "role": "viewer", "groups": groups}
            assert (await red.post("/api/v1/tokens", json=body)).status_code == 403
        for role in ROLES[:-1]:
            lesser = await server.client(role)
            assert (await lesser.post("/api/v1/tokens", json={"name": "x", "role": role})).status_code == 403
        short = await server.context.identities.create_token("short", "admin", None, clock.now + 60)
        program = await server.anyone(authorization=f"Bearer {short.secret}")
        longer = await program.post("/api/v1/tokens", json={"name": "x", "role": "admin", "expires_in": 61})
        assert longer.status_code == 403
        same = await program.post("/api/v1/tokens", json={"name": "x", "role": "admin"})
        assert same.json()["expires"] == (await program.get("/api/v1/me")).json()["expires"]
        browser = await server.anyone()
        await browser.post("/api/v1/session", json={"token": short.secret})
        longer = await browser.post(
            "/api/v1/tokens", json={"name": "x", "role": "admin", "expires_in": 61}, headers=ORIGIN
        )
        assert longer.status_code == 403

    story(work, clock=clock)


def test_admin_of_a_group_sees_nothing_of_others() -> None:
    async def work(server: Server) -> None:
        red = await server.client("admin", groups=["red"], name="red admin")
        blue = await server.context.identities.create_token("blue", "viewer", ["blue"])
        root = await server.context.identities.create_token("root", "admin", None)
        listed = (await red.get("/api/v1/tokens")).json()["tokens"]
        assert [one["name"] for one in listed] == ["red admin"]
        for other in (blue, root):
            assert (await red.delete(f"/api/v1/tokens/{other.id}")).status_code == 404
            assert await server.context.identities.verify_token(other.secret) is not None
        assert (await red.get("/metrics")).status_code == 403

    story(work)


def test_audit_log_of_a_group_is_for_its_admins() -> None:
    async def work(server: Server) -> None:
        red, blue, root = [
            await server.client("admin", groups=groups, name=name)
            for name, groups in (("red", ["red"]), ("blue", ["blue"]), ("root", None))
        ]
        text = loop_text(2)
        for client in (red, blue):
            saved = await client.put(
                "/api/v1/workflows/review", json={"text": text}, headers={"if-none-match": "*"}
            )
            assert saved.status_code == 201
            started = await client.post(
                "/api/v1/runs", json={"workflow": "review", "script": {"Writer": ["x"]}}
            )
            run_id = started.json()["id"]
            await server.context.runs.result(run_id)
            await client.post(f"/api/v1/runs/{run_id}/replay", json={})
            assert (await client.delete(f"/api/v1/runs/{run_id}")).status_code == 204
            token = (await client.post("/api/v1/tokens", json={"name": "t", "role": "viewer"})).json()
            assert (await client.delete(f"/api/v1/tokens/{token['id']}")).status_code == 204
            assert (await client.delete("/api/v1/workflows/review")).status_code == 204
        await root.delete("/api/v1/memory/red")
        await (await server.anyone()).post("/api/v1/session", json={"token": "rdl_abc_def"})
        # One of both groups belongs to neither alone.
        both = await server.client("admin", groups=["red", "blue"], name="both")
        await both.post("/api/v1/tokens", json={"name": "t", "role": "viewer"})

        async def seen(client: httpx2.AsyncClient) -> list[tuple[str, str]]:
            answer = await client.get("/api/v1/audit")
            assert answer.status_code == 200, answer.text
            entries = answer.json()["entries"]
            return [((one["who"] or {}).get("name", ""), one["action"]) for one in reversed(entries)]

        own = (
            *("workflow.save", "run.start", "run.replay", "run.delete"),
            *("token.create", "token.revoke", "workflow.delete"),
        )
        assert await seen(red) == [*(("red", one) for one in own), ("root", "memory.forget_all")]
        assert await seen(blue) == [("blue", one) for one in own]
        assert len(await seen(both)) == 2 * len(own) + 2
        assert len(await seen(root)) == 2 * len(own) + 3

    story(work)


def test_tokens_made_with_a_token_are_revoked_with_it() -> None:
    async def work(server: Server) -> None:
        identities, root = server.context.identities, await server.client("admin", name="root")
        first = await identities.create_token("first", "admin", None)
        browser = await server.anyone()
        await browser.post("/api/v1/session", json={"token": first.secret})
        body = {"name": "x", "role": "admin"}
        child = (await browser.post("/api/v1/tokens", json=body, headers=ORIGIN)).json()
        program = await server.anyone(authorization=f"Bearer {child['secret']}")
        grandchild = (await program.post("/api/v1/tokens", json=body)).json()
        other = (await root.post("/api/v1/tokens", json=body)).json()
        assert (await root.delete(f"/api/v1/tokens/{first.id}")).status_code == 204
        for credential in (first.secret, child["secret"], grandchild["secret"]):
            assert await identities.verify_token(credential) is None
        assert await identities.verify_token(other["secret"]) is not None
        entries = (await root.get("/api/v1/audit", params={"action": "token.revoke"})).json()["entries"]
        assert [one["subject"] for one in reversed(entries)] == [grandchild["id"], child["id"], first.id]
        assert [one["details"].get("made_with") for one in entries] == [None, first.id, first.id]
        # An admin of a group sees that a token of the group was revoked, whoever made it.
        red = await server.client("admin", groups=["red"])
        of_red = (await root.post("/api/v1/tokens", json=body)).json()
        maker = await server.anyone(authorization=f"Bearer {of_red['secret']}")
        made = (await maker.post("/api/v1/tokens", json={**body, "groups": ["red"]})).json()
        assert (await root.delete(f"/api/v1/tokens/{of_red['id']}")).status_code == 204
        entries = (await red.get("/api/v1/audit", params={"action": "token.revoke"})).json()["entries"]
        assert [one["subject"] for one in entries] == [made["id"]]

    story(work)


def test_token_that_is_made_while_its_maker_is_revoked_does_not_stay() -> None:
    """Each order of the two: the new token is stored before the maker is gone, or after."""

    async def work(server: Server) -> None:
        identities = server.context.identities
        maker = await identities.create_token("maker", "admin", None)
        made: list[str] = []

        async def make_another(key: str, _record: Any) -> None:
            if len(made) < 3:
                issued = await identities.create_token("x", "admin", None, created_by=key, made_with=key)
                made.append(issued.secret)

        assert await identities.revoke(maker.id, make_another)
        assert len(made) == 3
        for secret in made:
            assert await identities.verify_token(secret) is None
        with pytest.raises(MakerRevoked):
            await identities.create_token("x", "admin", None, created_by=maker.id, made_with=maker.id)
        assert await identities.tokens() == []

    story(work)


def test_token_does_not_take_unknown_fields() -> None:
    async def work(server: Server) -> None:
        admin = await server.client("admin")
        for extra in ({"digest": "0" * 64}, {"id": "abc"}, {"secret": "x"}, {"created_by": "me"}):
            body = {"name": "x", "role": "viewer", **extra}
            assert (await admin.post("/api/v1/tokens", json=body)).status_code == 422
        wrong: Any
        for wrong in ({"role": "root"}, {"groups": []}, {"groups": "red"}, {"expires_in": 0}, {"name": ""}):
            answer = await admin.post("/api/v1/tokens", json={"name": "x", "role": "viewer", **wrong})
            assert answer.status_code == 422

    story(work)
