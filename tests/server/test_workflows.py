"""Saved workflows over HTTP: versions, preconditions, groups, drafts and pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import yaml

from tests.server.api import Server, serving

URL = "/api/v1/workflows"
NEW = {"if-none-match": "*"}
SOUND = """
graph:
  id: polish
  description: Polishes a text.
  nodes:
    - {id: Writer, type: agent, config: {}}
  start: Writer
"""
BROKEN = """
graph:
  nodes:
    - {id: Writer, type: agnet}
  start: Writr
"""


def played(story: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with serving(**options) as server:
            await story(server)

    asyncio.run(main())


async def save(client: httpx2.AsyncClient, name: str, text: str = SOUND, **params: str) -> dict[str, Any]:
    answer = await client.put(f"{URL}/{quote(name)}", json={"text": text}, params=params, headers=NEW)
    assert answer.status_code == 201, answer.text
    saved: dict[str, Any] = answer.json()
    return saved


def test_a_workflow_is_saved_read_changed_and_deleted() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author", name="Ann")
        first = await author.put(f"{URL}/Polish", json={"text": SOUND}, headers=NEW)
        assert first.status_code == 201 and first.headers["etag"] == '"1"'
        assert first.headers["location"] == f"{URL}/Polish?group="
        assert first.json()["draft"] is False and first.json()["errors"] == 0
        assert first.json()["author"] == "Ann"

        read = await author.get(first.headers["location"])
        assert read.status_code == 200 and read.headers["etag"] == '"1"'
        assert read.json()["text"] == SOUND
        assert read.json()["description"] == "Polishes a text."

        changed = SOUND.replace("Polishes", "Shortens")
        second = await author.put(f"{URL}/Polish", json={"text": changed}, headers={"if-match": '"1"'})
        assert second.status_code == 200 and second.headers["etag"] == '"2"'
        assert second.json()["description"] == "Shortens a text."

        gone = await author.delete(f"{URL}/Polish", headers={"if-match": '"2"'})
        assert gone.status_code == 204 and not gone.content
        assert (await author.get(f"{URL}/Polish")).status_code == 404
        assert (await author.delete(f"{URL}/Polish")).status_code == 404

    played(story)


def test_a_client_that_has_the_version_is_told_so() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        await save(author, "a")
        for known in ('"1"', 'W/"1"', '"7", "1"', "*"):
            answer = await author.get(f"{URL}/a", headers={"if-none-match": known})
            assert (answer.status_code, answer.content) == (304, b""), known
            assert answer.headers["etag"] == '"1"'
        other = await author.get(f"{URL}/a", headers={"if-none-match": '"0"'})
        assert other.status_code == 200

    played(story)


def test_a_change_has_to_say_which_version_it_changes() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        body = {"text": SOUND}
        for headers in ({}, {"if-none-match": '"3"'}):
            answer = await author.put(f"{URL}/a", json=body, headers=headers)
            assert answer.status_code == 428
            assert answer.json()["type"] == "urn:roundel:problem:precondition-required"
        await save(author, "a")

        again = await author.put(f"{URL}/a", json=body, headers=NEW)
        assert again.status_code == 412 and again.json()["version"] == 1
        stale = await author.put(f"{URL}/a", json=body, headers={"if-match": '"4"'})
        assert stale.status_code == 412 and stale.json()["version"] == 1
        assert stale.headers["etag"] == '"1"'
        weak = await author.put(f"{URL}/a", json=body, headers={"if-match": 'W/"1"'})
        assert weak.status_code == 412
        both = await author.put(f"{URL}/a", json=body, headers={"if-match": '"1"', **NEW})
        assert both.status_code == 412
        bare = await author.put(f"{URL}/a", json=body, headers={"if-match": "1"})
        assert bare.status_code == 400
        missing = await author.put(f"{URL}/b", json=body, headers={"if-match": '"1"'})
        assert missing.status_code == 404
        late = await author.delete(f"{URL}/a", headers={"if-match": '"9"'})
        assert late.status_code == 412 and late.json()["version"] == 1
        assert (await author.get(f"{URL}/a")).json()["version"] == 1

    played(story)


def test_of_two_servers_that_save_the_same_version_one_wins(tmp_path: Path) -> None:
    place = str(tmp_path / "runs.db")

    async def main() -> None:
        async with serving(place) as one, serving(place) as other:
            clients = [await one.client("author"), await other.client("author")]
            await save(clients[0], "a")

            async def change(number: int) -> httpx2.Response:
                text = f"{SOUND}# {number}"
                return await clients[number % 2].put(
                    f"{URL}/a", json={"text": text}, headers={"if-match": '"1"'}
                )

            answers = await asyncio.gather(*map(change, range(8)))
            statuses = sorted(answer.status_code for answer in answers)
            assert statuses == [200] + [412] * 7
            assert all(answer.json()["version"] == 2 for answer in answers)

            async def create(number: int) -> httpx2.Response:
                return await clients[number % 2].put(f"{URL}/b", json={"text": SOUND}, headers=NEW)

            created = await asyncio.gather(*map(create, range(8)))
            assert sorted(answer.status_code for answer in created) == [201] + [412] * 7

    asyncio.run(main())


def test_a_text_with_errors_is_saved_as_a_draft_and_cannot_be_run() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        draft = await save(author, "draft", BROKEN)
        assert draft["draft"] is True and draft["errors"] >= 2
        found = {(one["code"], one["line"]) for one in draft["diagnostics"]}
        assert ("unknown-type", 4) in found
        assert all(one["message"] and one["column"] for one in draft["diagnostics"])
        listed = (await author.get(URL)).json()["workflows"][0]
        assert (listed["draft"], listed["errors"]) == (True, draft["errors"])

        started = await author.post("/api/v1/runs", json={"workflow": "draft", "input": "x"})
        assert started.status_code == 422
        assert started.json()["type"] == "urn:roundel:problem:invalid-workflow"

        mended = await author.put(f"{URL}/draft", json={"text": SOUND}, headers={"if-match": '"1"'})
        assert mended.json()["draft"] is False
        for text in ("", "[", "graph: 7", "\t\x00"):
            saved = await save(author, f"no graph {text!r}", text)
            assert saved["draft"] is True and saved["errors"] >= 1

    played(story)


def test_what_the_policy_does_not_allow_is_an_error_of_the_text() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        text = "graph:\n  nodes:\n    - {id: A, type: python, config: {function: 'os:getcwd'}}\n  start: A\n"
        saved = await save(author, "code", text)
        assert saved["draft"] is True
        assert [one["code"] for one in saved["diagnostics"] if one["severity"] == "error"] == ["not-allowed"]

    played(story)


def test_versions_stay_readable_also_after_the_workflow_was_deleted() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        await save(author, "a")
        for number in range(1, 5):
            await author.put(
                f"{URL}/a", json={"text": f"{SOUND}# {number}"}, headers={"if-match": f'"{number}"'}
            )
        page = (await author.get(f"{URL}/a/versions", params={"limit": 3})).json()
        assert [one["version"] for one in page["versions"]] == [5, 4, 3] and page["next"] == "3"
        rest = (await author.get(f"{URL}/a/versions", params={"cursor": page["next"]})).json()
        assert [one["version"] for one in rest["versions"]] == [2, 1] and rest["next"] is None
        assert "text" not in page["versions"][0]

        await author.delete(f"{URL}/a")
        old = await author.get(f"{URL}/a/versions/2")
        assert old.json()["text"] == f"{SOUND}# 1" and old.json()["version"] == 2
        assert (await author.get(f"{URL}/a/versions/6")).status_code == 404
        assert (await author.get(f"{URL}/b/versions")).status_code == 404

        restored = await save(author, "a", old.json()["text"])
        assert restored["version"] > 5  # a version is never given twice

    played(story)


def test_text_with_a_secret_is_not_saved_not_even_as_a_draft() -> None:
    secret = "sk-written-0123456789"

    async def story(server: Server) -> None:
        author, admin = await server.client("author"), await server.client("admin")
        await save(author, "a")
        written = SOUND + f"models: {{default: {{model: openai:gpt-4o, api_key: {secret}}}}}\n"
        for text in (
            written,
            BROKEN + f"vars: {{DB_PASSWORD: {secret}}}\n",
            f"graph: [\n  api_key: {secret}",
        ):
            for name, header in (("b", NEW), ("a", {"if-match": '"1"'})):
                answer = await author.put(f"{URL}/{name}", json={"text": text}, headers=header)
                assert answer.status_code == 422 and secret not in answer.text
                assert "written-secret" in {one["code"] for one in answer.json()["diagnostics"]}
        assert len((await author.get(f"{URL}/a/versions")).json()["versions"]) == 1
        assert (await author.get(f"{URL}/b/versions")).status_code == 404
        assert secret not in (await admin.get("/api/v1/audit")).text
        # A reference is what it should have.
        text = written.replace(secret, "${OPENAI_API_KEY}")
        assert (await author.put(f"{URL}/b", json={"text": text}, headers=NEW)).status_code == 201
        # One that an earlier version has saved is not copied.
        await server.context.documents.put("workflows", "/old", {"text": written}, keep_history=True)
        answer = await author.post(f"{URL}/old/copy", json={"name": "new"})
        assert answer.status_code == 422

    played(story)


def test_old_versions_are_deleted_for_good_and_the_newest_stays() -> None:
    async def story(server: Server) -> None:
        red = await server.client("author", groups=["red"], name="Ann")
        admin = await server.client("admin")
        await save(red, "a")
        for version in range(1, 6):
            text = SOUND.replace("Writer", f"Writer{version}")
            changed = await red.put(f"{URL}/a", json={"text": text}, headers={"if-match": f'"{version}"'})
            assert changed.status_code == 200

        async def numbers() -> list[int]:
            return [one["version"] for one in (await red.get(f"{URL}/a/versions")).json()["versions"]]

        blue, operator = await server.client("author", groups=["blue"]), await server.client("operator")
        for client, status in ((blue, 404), (operator, 403)):
            assert (await client.delete(f"{URL}/a/versions/2")).status_code == status
            assert (await client.delete(f"{URL}/a/versions")).status_code == status
        assert await numbers() == [6, 5, 4, 3, 2, 1]
        assert (await red.delete(f"{URL}/a/versions/2")).status_code == 204
        assert (await red.delete(f"{URL}/a/versions/2")).status_code == 404
        assert (await red.get(f"{URL}/a/versions/2")).status_code == 404
        assert (await red.delete(f"{URL}/a/versions/6")).status_code == 409
        assert (await red.delete(f"{URL}/a/versions", params={"before": 4})).json() == {"deleted": 2}
        assert await numbers() == [6, 5, 4]
        assert (await red.delete(f"{URL}/a/versions", params={"before": 99})).json() == {"deleted": 2}
        assert await numbers() == [6]
        await red.delete(f"{URL}/a")
        assert (await red.delete(f"{URL}/a/versions")).json() == {"deleted": 0}
        assert await numbers() == [6], "the newest is gone once another one is saved"
        await save(red, "a")
        assert (await red.delete(f"{URL}/a/versions")).json() == {"deleted": 1}
        assert await numbers() == [7]
        log = await admin.get("/api/v1/audit", params={"action": "workflow.purge"})
        entry = log.json()["entries"][0]
        assert (entry["subject"], entry["who"]["name"]) == ("red/a", "Ann")
        assert entry["details"] == {"group": "red", "first": 1, "below": 7}

    played(story)


def test_a_copy_has_a_name_or_a_group_of_its_own() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        await save(author, "a")
        copied = await author.post(f"{URL}/a/copy", json={"name": "b", "group": "red"})
        assert copied.status_code == 201 and copied.headers["location"] == f"{URL}/b?group=red"
        assert (await author.get(copied.headers["location"])).json()["text"] == SOUND
        again = await author.post(f"{URL}/a/copy", json={"name": "b", "group": "red"})
        assert again.status_code == 409
        assert (await author.post(f"{URL}/c/copy", json={"name": "d"})).status_code == 404
        assert (await author.post(f"{URL}/a/copy", json={"name": "x/y"})).status_code == 422

    played(story)


def test_a_caller_sees_the_workflows_of_their_groups_and_nothing_else() -> None:
    async def story(server: Server) -> None:
        red, blue = await server.client("author", ["red"]), await server.client("author", ["blue", "green"])
        everywhere = await server.client("author")
        assert (await save(red, "shared"))["group"] == "red"
        assert (await save(blue, "shared"))["group"] == "blue"
        await save(blue, "other", group="green")
        await save(everywhere, "plain")

        assert (await red.get(f"{URL}/shared")).json()["group"] == "red"
        for path in ("other", "other/versions", "other/versions/1", "plain"):
            assert (await red.get(f"{URL}/{path}")).status_code == 404
        assert (await red.get(f"{URL}/shared", params={"group": "blue"})).status_code == 404
        assert (await red.delete(f"{URL}/shared", params={"group": "blue"})).status_code == 404
        assert (await red.post(f"{URL}/other/copy", json={"name": "mine"})).status_code == 404
        refused = await red.put(f"{URL}/n", json={"text": ""}, params={"group": "blue"}, headers=NEW)
        assert refused.status_code == 403
        assert (await red.post(f"{URL}/shared/copy", json={"name": "n", "group": ""})).status_code == 403

        async def names(client: httpx2.AsyncClient, **params: str) -> list[tuple[str, str]]:
            listed = (await client.get(URL, params=params)).json()["workflows"]
            return [(one["group"], one["name"]) for one in listed]

        assert await names(red) == [("red", "shared")]
        assert await names(blue) == [("blue", "shared"), ("green", "other")]
        assert await names(blue, group="green") == [("green", "other")]
        assert await names(blue, group="red") == []
        assert len(await names(everywhere)) == 4
        # A caller who sees everything finds a workflow by its name alone.
        assert (await everywhere.get(f"{URL}/other")).json()["group"] == "green"

    played(story)


def test_roles() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        await save(author, "a")
        for role in ("viewer", "operator"):
            client = await server.client(role)
            assert (await client.get(f"{URL}/a")).status_code == 200
            assert (await client.put(f"{URL}/b", json={"text": ""}, headers=NEW)).status_code == 403
            assert (await client.delete(f"{URL}/a")).status_code == 403
            assert (await client.post(f"{URL}/a/copy", json={"name": "c"})).status_code == 403
        nobody = await server.anyone()
        assert (await nobody.get(URL)).status_code == 401

    played(story)


def test_changes_are_in_the_audit_log() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author", ["red"], name="Ann")
        await save(author, "a")
        await author.post(f"{URL}/a/copy", json={"name": "b"})
        await author.delete(f"{URL}/a")
        entries = await server.context.documents.entries("audit")
        seen = [(one.body["action"], one.body["subject"], one.body["who"]["name"]) for one in entries]
        assert seen == [
            ("workflow.delete", "red/a", "Ann"),
            ("workflow.copy", "red/b", "Ann"),
            ("workflow.save", "red/a", "Ann"),
        ]

    played(story)


@pytest.mark.parametrize(
    "name", ["润色 循环", "Überprüfung", "a.b", "v1.2 (final)", "100%", "a?b#c", "🙂", "x" * 200, "کتاب‌ها"]
)
def test_names_in_any_script(name: str) -> None:
    async def story(server: Server) -> None:
        author = await server.client("author", ["Gruppe/ß?"])
        assert (await save(author, name))["name"] == name
        read = await author.get(f"{URL}/{quote(name, safe='')}")
        assert read.status_code == 200 and read.json()["name"] == name
        assert (await author.get(URL)).json()["workflows"][0]["name"] == name
        started = await author.post("/api/v1/runs", json={"workflow": name, "script": {"*": ["done"]}})
        assert started.status_code == 202

    played(story)


def test_two_spellings_of_one_name_are_the_same_workflow() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        one, other = "Pru\u0308fung", "Pr\u00fcfung"
        await save(author, one)
        assert (await author.get(f"{URL}/{quote(one)}")).status_code == 200
        assert (await author.get(f"{URL}/{quote(other)}")).status_code == 200

    played(story)


@pytest.mark.parametrize(
    "name", [".hidden", "a\nb", "a\x00", "a\x85b", " a", "a ", "x" * 201, "a\u202eb", "\u2028"]
)
def test_names_that_are_refused(name: str) -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        path = f"{URL}/{quote(name, safe='')}"
        answer = await author.put(path, json={"text": SOUND}, headers=NEW)
        assert answer.status_code == 422, answer.text
        assert (await author.get(path)).status_code == 422

    played(story)


def test_a_name_with_a_slash_is_no_workflow() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        answer = await author.put(f"{URL}/a%2Fb", json={"text": SOUND}, headers=NEW)
        assert answer.status_code == 404

    played(story)


def test_text_that_no_file_could_have_is_refused() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        headers = {**NEW, "content-type": "application/json"}
        answer = await author.put(f"{URL}/a", content=rb'{"text": "\ud800"}', headers=headers)
        assert answer.status_code == 422
        unknown = await author.put(f"{URL}/a", json={"text": "", "txet": ""}, headers=NEW)
        assert unknown.status_code == 422
        large = await author.put(f"{URL}/a", json={"text": "x" * 5_000_001}, headers=NEW)
        assert large.status_code == 422

    played(story)


def test_pages_have_every_workflow_once_and_filters_count_before_pages() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author", ["b", "a", "c d"])
        wanted = []
        for number in range(60):
            group = ("a", "b", "c d")[number % 3]
            name = f"{'Polish' if number % 2 else 'review'} {number:02}"
            await save(author, name, "graph: {}", group=group)
            wanted.append((group, name))

        async def pages(**params: Any) -> list[tuple[str, str]]:
            seen: list[tuple[str, str]] = []
            cursor: str | None = ""
            while cursor is not None:
                page = (await author.get(URL, params={**params, "cursor": cursor})).json()
                assert len(page["workflows"]) <= params["limit"]
                seen += [(one["group"], one["name"]) for one in page["workflows"]]
                cursor = page["next"]
            return seen

        assert await pages(limit=7) == sorted(wanted)
        assert await pages(limit=20, group="b") == sorted(one for one in wanted if one[0] == "b")
        assert await pages(limit=10, q="pOLISH") == sorted(one for one in wanted if "Polish" in one[1])
        assert await pages(limit=1, q="nothing") == []
        for cursor in ("ä", "abc", "XY"):
            assert (await author.get(URL, params={"cursor": cursor})).status_code == 422

    played(story)


def test_the_description_is_that_of_the_text_unless_one_is_given() -> None:
    async def story(server: Server) -> None:
        author = await server.client("author")
        await author.put(f"{URL}/a", json={"text": SOUND, "description": "Mine"}, headers=NEW)
        assert (await author.get(f"{URL}/a")).json()["description"] == "Mine"
        found = (await author.get(URL, params={"q": "mine"})).json()["workflows"]
        assert [one["name"] for one in found] == ["a"]

    played(story)


def test_a_run_of_a_saved_workflow_is_repeated_by_its_script() -> None:
    async def story(server: Server) -> None:
        author, other = await server.client("author", ["red"]), await server.client("author", ["blue"])
        await save(author, "a")
        body = {"workflow": "a", "input": "tea", "script": {"Writer": ["a line\nabout tea"]}}
        started = await author.post("/api/v1/runs", json={**body, "limits": {"rounds": 3}})
        assert started.status_code == 202, started.text
        path = f"/api/v1/runs/{started.json()['id']}"
        await server.context.runs.result(started.json()["id"])
        script = await author.get(f"{path}/script")
        assert script.status_code == 200 and script.headers["content-type"].startswith("application/yaml")
        assert yaml.safe_load(script.text) == {"Writer": [{"at": "Writer", "text": "a line\nabout tea"}]}
        again = await author.post("/api/v1/runs", json={**body, "script": yaml.safe_load(script.text)})
        await server.context.runs.result(again.json()["id"])
        first = (await author.get(f"{path}/output")).json()
        second = (await author.get(f"/api/v1/runs/{again.json()['id']}/output")).json()
        assert first["output"] == second["output"] == "a line\nabout tea"
        assert (await other.get(f"{path}/script")).status_code == 404
        await server.context.runs.prune(started.json()["id"], keep="best")
        assert (await author.get(f"{path}/script")).status_code == 409

    played(story)
