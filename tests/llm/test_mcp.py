"""Tools of MCP servers, against real ones: one from PyPI, and a toolbox of our own on pipes and on HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from roundel.llm.mcp import McpConnection, McpTool, require_mcp
from roundel.nodes.services import NodeError, ToolError
from roundel.workflow.tool_source import McpServer

TOOLBOX = str(Path(__file__).parent / "servers" / "toolbox.py")
STDIO = McpServer(command=sys.executable, args=(TOOLBOX, "stdio"))
SILENT = "import sys; sys.stdin.read()"
Story = Callable[[McpConnection, dict[str, McpTool]], Awaitable[None]]


def run_story(connection: McpConnection, story: Story) -> None:
    """Runs a story about the tools of a connection, and closes it."""

    async def whole() -> None:
        try:
            await story(connection, {tool.spec.name: tool for tool in await connection.tools()})
        finally:
            await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 30))


def refused(server: McpServer, folder: Path | None = None, **options: Any) -> str:
    """What is said of a server that cannot be used."""
    connection = McpConnection(server, folder, **options)

    async def ask() -> None:
        try:
            await connection.tools()
        finally:
            await connection.close()

    with pytest.raises(NodeError) as caught:
        asyncio.run(asyncio.wait_for(ask(), 30))
    return str(caught.value)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def becomes_true(condition: Callable[[], bool]) -> bool:
    for _ in range(500):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


@contextmanager
def toolbox_on_http(port: int = 0, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, TOOLBOX, "http", str(port), *options]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=quiet) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with toolbox_on_http() as (address, _):
        yield address


async def everything_works(connection: McpConnection, tools: dict[str, McpTool]) -> None:
    """What is the same on both transports."""
    assert len(tools) == 14  # three pages
    assert tools["echo"].spec.description == "Does echo."
    assert tools["echo"].spec.parameters["required"] == ["text"]
    assert await tools["echo"].call({"text": "grüß dich\n"}, "k") == "grüß dich\n"
    assert await tools["add"].call({"a": 1, "b": 2}, "k") == "3"
    assert await tools["key"].call({}, "run/A[0]/1") == "run/A[0]/1"
    assert json.loads(await tools["structured"].call({}, "k")) == {"total": 3}
    assert (await tools["media"].call({}, "k")).split("\n") == [
        "two lines",
        "[image image/png, 1234 bytes]",
        "[audio audio/wav, 1234 bytes]",
        "[resource notes file:///notes.txt]",
        "of a file",
        "[resource a:c application/pdf, 1234 bytes]",
    ]
    with pytest.raises(ToolError, match=r"^no such city: Atlantis$"):
        await tools["fail"].call({"text": "Atlantis"}, "k")
    with pytest.raises(ToolError, match=r"^these arguments are wrong$"):
        await tools["refuse"].call({}, "k")
    with pytest.raises(ToolError, match="'three' is not of type 'number'"):
        await tools["off_schema"].call({}, "k")
    many = await asyncio.gather(*(tools["echo"].call({"text": str(n)}, f"k{n}") for n in range(20)))
    assert many == [str(n) for n in range(20)]


def a_late_answer_is_not_awaited(mark: Path) -> Story:
    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        with pytest.raises(ToolError, match=r"^no answer after 0\.5 seconds$"):
            await tools["slow"].call({"text": str(mark)}, "k")
        assert await tools["echo"].call({"text": "still here"}, "k") == "still here"

    return story


def a_call_can_be_cancelled(mark: Path) -> Story:
    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        before = await tools["pid"].call({}, "k")
        call = asyncio.create_task(tools["slow"].call({"text": str(mark)}, "k"))
        assert await becomes_true(mark.with_suffix(".begun").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await becomes_true(mark.with_suffix(".cancelled").exists), "the server was not told"
        assert await tools["pid"].call({}, "k") == before

    return story


def test_a_server_from_pypi() -> None:
    command = str(Path(sys.executable).parent / "mcp-server-time")
    server = McpServer(command=command, args=("--local-timezone", "UTC"))

    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        assert set(tools) == {"time_get_current_time", "time_convert_time"}
        where = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
        answer = json.loads(await tools["time_convert_time"].call(where, "k"))
        assert answer["target"]["datetime"].endswith("T08:30:00+05:30")
        with pytest.raises(ToolError, match="Mars/Olympus"):
            await tools["time_get_current_time"].call({"timezone": "Mars/Olympus"}, "k")

    run_story(McpConnection(server, None, prefix="time"), story)


def test_all_kinds_of_answers_on_pipes() -> None:
    run_story(McpConnection(STDIO, None), everything_works)


@pytest.mark.parametrize("options", [(), ("old",)], ids=["new protocol", "old protocol"])
def test_all_kinds_of_answers_on_http(options: tuple[str, ...]) -> None:
    with toolbox_on_http(0, *options) as (address, _):
        run_story(McpConnection(McpServer(url=address), None), everything_works)


def test_prefix_and_only_select_the_offered_tools(url: str) -> None:
    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        assert list(tools) == ["box_pid", "box_echo"]
        assert await tools["box_echo"].call({"text": "hi"}, "k") == "hi"

    run_story(McpConnection(McpServer(url=url), None, prefix="box", only=("pid", "echo")), story)


def test_unknown_name_in_only_is_rejected(url: str) -> None:
    replies = refused(McpServer(url=url), only=("echo", "ad"), name="box")
    assert replies.startswith(
        "MCP server 'box' has no tool 'ad', which 'only' names; there are: echo, add, fail,"
    )


def test_late_answer_is_not_awaited(url: str, tmp_path: Path) -> None:
    story = a_late_answer_is_not_awaited(tmp_path / "late")
    run_story(McpConnection(McpServer(url=url, timeout=0.5), None, timeout=20), story)
    run_story(McpConnection(STDIO, None, timeout=0.5), story)


def test_call_can_be_cancelled(url: str, tmp_path: Path) -> None:
    run_story(McpConnection(McpServer(url=url), None), a_call_can_be_cancelled(tmp_path / "http"))
    run_story(McpConnection(STDIO, None), a_call_can_be_cancelled(tmp_path / "stdio"))


def test_dead_server_process_is_restarted_by_the_next_call(capfd: pytest.CaptureFixture[str]) -> None:
    server = McpServer(command=STDIO.command, args=STDIO.args, env={"TOOLBOX_SECRET": "hunter2-hunter2"})

    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        first = int(await tools["pid"].call({}, "k"))
        with pytest.raises(NodeError) as caught:
            await tools["die"].call({}, "k")
        assert str(caught.value).startswith("MCP server 'box' ended during the call of 'die'")
        assert str(caught.value).endswith("\nits last lines:\n  out of memory, says ***")
        second, third = await asyncio.gather(tools["pid"].call({}, "k"), tools["pid"].call({}, "k"))
        assert int(second) != first and second == third
        os.kill(int(second), 9)
        assert await becomes_true(lambda: not is_alive(int(second)))
        with contextlib.suppress(NodeError):  # that it has gone may not have come through yet
            await tools["echo"].call({"text": "there?"}, "k")
        assert await tools["echo"].call({"text": "up again"}, "k") == "up again"

    run_story(McpConnection(server, None, name="box"), story)
    assert capfd.readouterr() == ("", ""), "a server's words were printed"


@pytest.mark.parametrize("options", [(), ("old",)], ids=["new protocol", "old protocol"])
def test_http_server_may_disappear_and_return(options: tuple[str, ...]) -> None:
    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        with pytest.raises(NodeError, match="'box' ended during the call of 'die'"):
            await tools["die"].call({}, "k")
        await asyncio.to_thread(process.wait)
        with pytest.raises(NodeError, match=f"^cannot reach MCP server 'box' at {address}: "):
            await tools["echo"].call({"text": "anyone?"}, "k")
        with toolbox_on_http(port, *options):
            assert await tools["echo"].call({"text": "back"}, "k") == "back"
        # It restarts between two calls, which nobody sees.
        with toolbox_on_http(port, *options):
            assert (
                await asyncio.gather(*(tools["echo"].call({"text": "x"}, "k") for _ in range(3))) == ["x"] * 3
            )

    with toolbox_on_http(0, *options) as (address, process):
        port = int(address.rpartition(":")[2].partition("/")[0])
        run_story(McpConnection(McpServer(url=address), None, name="box"), story)


def test_concurrent_first_calls_share_one_process() -> None:
    async def story() -> None:
        connection = McpConnection(STDIO, None, only=("pid",))
        impatient = asyncio.create_task(connection.tools())
        waiting = [asyncio.create_task(connection.tools()) for _ in range(3)]
        await asyncio.sleep(0.05)
        impatient.cancel()
        pids = {await (await asking)[0].call({}, "k") for asking in waiting}
        await connection.close()
        assert len(pids) == 1 and impatient.cancelled()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_close_terminates_the_server_process(tmp_path: Path) -> None:
    mark = tmp_path / "slow"

    async def story() -> None:
        connection = McpConnection(STDIO, None, name="box")
        await connection.close()  # it was never used
        connection = McpConnection(STDIO, None, name="box")
        tools = {tool.spec.name: tool for tool in await connection.tools()}
        pid = int(await tools["pid"].call({}, "k"))
        assert is_alive(pid)
        in_flight = asyncio.create_task(tools["slow"].call({"text": str(mark)}, "k"))
        assert await becomes_true(mark.with_suffix(".begun").exists)
        await connection.close()
        await connection.close()
        assert not is_alive(pid)
        with pytest.raises(NodeError, match="'box' was closed during the call of 'slow'"):
            await in_flight
        with pytest.raises(NodeError, match="'box' is closed"):
            await tools["pid"].call({}, "k")

    asyncio.run(asyncio.wait_for(story(), 30))


def test_server_process_ignoring_termination_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears neither the end of its input nor a polite signal, and is closed before it is ready."""
    import mcp.client.stdio

    monkeypatch.setattr(mcp.client.stdio, "PROCESS_TERMINATION_TIMEOUT", 0.1)
    monkeypatch.setattr(mcp.client.stdio, "FORCE_KILL_TIMEOUT", 0.1)
    mark = tmp_path / "pid"
    code = f"import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(mark)!r}, 'w')"
    code += ".write(str(os.getpid()) + '.'); time.sleep(60)"

    async def story() -> None:
        connection = McpConnection(McpServer(command=sys.executable, args=("-c", code)), None, name="rock")
        asking = asyncio.create_task(connection.tools())
        assert await becomes_true(lambda: mark.exists() and mark.read_text().endswith("."))
        started = time.monotonic()
        await connection.close()
        assert time.monotonic() - started < 30, "it would sleep for 60 seconds"
        assert await becomes_true(lambda: not is_alive(int(mark.read_text()[:-1])))
        with pytest.raises(NodeError, match="'rock' was closed before it was ready"):
            await asking

    asyncio.run(asyncio.wait_for(story(), 30))


def test_missing_command_is_reported(tmp_path: Path) -> None:
    replies = refused(McpServer(command="no-such-command"), name="box")
    assert replies.startswith(
        "cannot start MCP server 'box': the command 'no-such-command' was not found; install"
    )
    plain = tmp_path / "plain"
    plain.write_text("no program")
    assert "Permission denied; check 'command'" in refused(McpServer(command=str(plain)))
    replies = refused(McpServer(command="no-such-command", cwd="nowhere"), tmp_path)
    assert (
        replies
        == f"cannot start 'no-such-command': its folder '{tmp_path / 'nowhere'}' does not exist; check 'cwd'"
    )


def test_startup_failure_shows_the_last_stderr_lines() -> None:
    code = (
        "import sys, os; [print('line', n, file=sys.stderr) for n in range(500)]; sys.exit(os.environ['WHY'])"
    )
    server = McpServer(command=sys.executable, args=("-c", code), env={"WHY": "bad key sk-12345"})
    replies = refused(server, name="box").splitlines()
    assert replies[0] == "MCP server 'box' ended before it was ready; check 'command', 'args' and 'env'"
    assert replies[1:3] == ["its last lines:", "  line 491"] and replies[-1] == "  ***" and len(replies) == 12


def test_server_that_exits_after_listing_its_tools_fails_the_call() -> None:
    code = """
import json
about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
about["serverInfo"] = {"name": "hasty", "version": "1"}
listing = {"tools": [{"name": "hurry", "inputSchema": {"type": "object"}}]}
known = {"initialize": {"result": about}, "tools/list": {"result": listing}}
unknown = {"error": {"code": -32601, "message": "unknown"}}
method = ""
while method != "tools/list":
    request = json.loads(input())
    method = request["method"]
    if "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"], **known.get(method, unknown)}
        print(json.dumps(answer), flush=True)
"""

    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        for _ in range(3):
            with pytest.raises(NodeError, match="'hasty' ended during the call of 'hurry'"):
                await tools["hurry"].call({}, "k")

    run_story(McpConnection(McpServer(command=sys.executable, args=("-c", code)), None, name="hasty"), story)


def test_server_process_that_never_answers_times_out() -> None:
    server = McpServer(command=sys.executable, args=("-c", SILENT), startup_timeout=0.3)
    wanted = "MCP server 'box' was not ready after 0.3 seconds; if it needs more, raise 'startup_timeout'"
    assert refused(server, name="box") == wanted


def test_unreachable_or_silent_address_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        mute = McpServer(url=f"http://127.0.0.1:{port}/mcp", startup_timeout=0.3)
        assert "was not ready after 0.3 seconds" in refused(mute)
    secret = McpServer(url=f"http://user:pa55word@127.0.0.1:{port}/mcp?key=t0psecret")
    replies = refused(secret)
    assert replies.startswith(f"cannot reach MCP server 'http://127.0.0.1:{port}/mcp': ")
    assert replies.endswith("; is it running, is 'url' right?")


def test_address_that_is_not_an_mcp_server_is_reported(url: str) -> None:
    server = McpServer(url=url + "/elsewhere", headers={"Authorization": "Bearer abcdefgh"})
    wanted = f"MCP server 'box' at {url}/elsewhere answered 404 Not Found; check 'url' and 'headers'"
    assert refused(server, name="box") == wanted


def test_header_with_a_newline_is_rejected_without_its_value(url: str) -> None:
    replies = refused(McpServer(url=url, headers={"X-Key": "sk-12345\n"}))
    assert "Illegal header value" in replies and "sk-12345" not in replies


def test_headers_are_sent_and_masked_in_errors(url: str) -> None:
    server = McpServer(url=url, headers={"Authorization": "Bearer abcdefgh"})

    async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
        assert await tools["header"].call({"text": "authorization"}, "k") == "Bearer abcdefgh"
        with pytest.raises(ToolError, match=r"^no such city: \*\*\*$"):
            await tools["fail"].call({"text": "abcdefgh"}, "k")

    run_story(McpConnection(server, None), story)


def test_server_process_gets_its_environment_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLBOX_OUTER", "outer")
    tmp_path = tmp_path.resolve()
    (tmp_path / "inner").mkdir()
    given: dict[str, Any] = {"command": STDIO.command, "args": STDIO.args, "env": {"TOOLBOX_OWN": "own"}}

    def seen(expected: str, folder: Path) -> Story:
        async def story(connection: McpConnection, tools: dict[str, McpTool]) -> None:
            assert await tools["env"].call({"text": "TOOLBOX_OWN"}, "k") == "own"
            assert await tools["env"].call({"text": "TOOLBOX_OUTER"}, "k") == expected
            assert await tools["env"].call({"text": "PATH"}, "k") == os.environ["PATH"]
            assert Path(await tools["cwd"].call({}, "k")) == folder

        return story

    run_story(McpConnection(McpServer(**given), tmp_path), seen("outer", tmp_path))
    alone = McpServer(**given, inherit_env=False, cwd="inner")
    run_story(McpConnection(alone, tmp_path), seen("None", tmp_path / "inner"))


def test_missing_mcp_extra_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    require_mcp()
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(NodeError) as caught:
        require_mcp()
    assert str(caught.value) == 'MCP tools need the extra: pip install "roundel[mcp]"'
    assert refused(STDIO) == str(caught.value)


def test_our_module_is_imported_without_the_package() -> None:
    code = "import sys; sys.modules['mcp'] = sys.modules['anyio'] = None; import roundel.llm.mcp"
    subprocess.run([sys.executable, "-c", code], check=True)
