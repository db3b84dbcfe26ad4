"""The commands for stored runs: their output, and their errors for wrong input."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from roundel.journal.registry import open_store
from tests.cli.stored_runs import has_started, open_gate, prepare, roundel, run, runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


@pytest.fixture
def finished(folder: Path) -> Path:
    """With one run of two rounds that is over."""
    run(folder)
    roundel(folder, "answer", "last", "shorter")
    assert roundel(folder, "answer", "last", "OK").exit_code == 0
    return folder


# Where runs are kept.


def test_run_is_stored_in_the_working_folder_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder)
    assert (folder / ".roundel" / "runs.db").exists()
    run(folder, "--store", "here.db")
    monkeypatch.setenv("ROUNDEL_STORE", "sqlite:///there.db?sync=off")
    run(folder)
    assert [len(runs(folder)), (folder / "there.db").exists()] == [1, True]
    assert len(roundel(folder, "runs", "--json", "--store", "here.db").stdout.splitlines()) == 1


def test_no_store_writes_nothing(folder: Path) -> None:
    done = run(folder, "--no-store")
    assert done.exit_code == 4
    assert not (folder / ".roundel").exists()
    assert "run it in a terminal" in done.stderr and not done.stderr.startswith("run ")


def test_reading_commands_create_no_store(folder: Path) -> None:
    assert "there are no runs" in roundel(folder, "runs").stderr
    assert roundel(folder, "runs", "--json").stdout == ""
    assert not (folder / ".roundel").exists()


@pytest.mark.parametrize(
    ("place", "code", "said"),
    [
        ("script.yaml", 1, "is not a Roundel store"),
        (".", 1, "is a directory; a store is a file"),
        ("script.yaml/runs.db", 1, "script.yaml is a file, not a folder"),
        ("postgres://somewhere/runs", 2, "not a known kind of store"),
        ("sqlite:///runs.db?sync=maybe", 2, "full, normal, off"),
        ("sqlite:///runs.db?mode=ro", 2, "no option 'mode'"),
    ],
)
def test_unusable_store_is_reported_before_the_run(folder: Path, place: str, code: int, said: str) -> None:
    done = run(folder, "--store", place)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Writer" not in done.stderr, "nothing has begun"
    assert not (folder / "calls").exists()


@pytest.mark.skipif(os.name != "posix", reason="limits of processes are those of POSIX")
def test_full_disk_ends_the_run_and_suggests_resume(folder: Path) -> None:
    (folder / "flow.yaml").write_text(
        """
breaker: false
graph:
  start: Writer
  end: Out
  nodes:
    - {id: Writer, type: agent}
    - {id: Guard, type: loop_counter, config: {max_iterations: 20}}
    - {id: Out, type: passthrough}
  edges:
    - {from: Writer, to: Guard}
    - {from: Writer, to: Writer}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Out}
"""
    )
    noise = os.urandom(40_000).hex()
    (folder / "script.yaml").write_text(json.dumps({"Writer": [noise[n:] for n in range(20)]}))
    limited = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)); "
    command = f"{limited} import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    command += "runpy.run_module('roundel', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", command, "run", "flow.yaml", "--script", "script.yaml", "--input", "x"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    (row,) = runs(folder)
    assert f"Resume the run with: roundel resume {row['run_id']}" in done.stderr
    again = roundel(folder, "resume", "last", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout.splitlines()[-1])["data"]["loops"]["Writer"]["rounds"] == 20


# What is shown.


def test_forks_are_marked_in_the_list(finished: Path) -> None:
    (old,) = runs(finished)
    assert roundel(finished, "fork", "last", "--at", "Writer[2]", "--no-run").exit_code == 0
    heading, fork, origin = roundel(finished, "runs").stdout.splitlines()
    assert heading.split()[-1] == "from"
    assert fork.split()[-1] == old["run_id"][:5]
    assert old["run_id"][:5] not in origin.split()[1:]
    assert max(map(len, (heading, fork, origin))) <= 80


def test_runs_are_listed_with_the_newest_first(finished: Path) -> None:
    run(finished)
    waiting, done = runs(finished)
    assert (waiting["status"], done["status"]) == ("waiting", "completed")
    assert (done["workflow"], done["input"], done["rounds"]) == ("press", "tea", 2)
    assert done["started"] < done["updated"] and done["owner"] is None
    table = roundel(finished, "runs").stdout.splitlines()
    assert table[0].split() == ["run", "workflow", "status", "rounds", "started", "updated", "owner"]
    assert table[1].startswith(f"{waiting['run_id']}  press")
    (only,) = roundel(finished, "runs", "--status", "completed", "--json").stdout.splitlines()
    assert json.loads(only)["run_id"] == done["run_id"]
    assert "--limit" in roundel(finished, "runs", "--limit", "1").stderr
    assert "no runs with status failed" in roundel(finished, "runs", "--status", "failed").stderr


def test_run_is_found_by_a_prefix_of_its_id(finished: Path) -> None:
    (row,) = runs(finished)
    for name in (row["run_id"], row["run_id"][:5], "last"):
        assert roundel(finished, "log", name).exit_code == 0
    for _ in range(16):  # then two of them begin alike
        roundel(finished, "fork", row["run_id"], "--at", "Writer[1]", "--no-run")
    beginnings = [other["run_id"][0] for other in runs(finished)]
    shared = next(one for one in beginnings if beginnings.count(one) > 1)
    unclear = roundel(finished, "log", shared)
    assert unclear.exit_code == 2
    assert f"'{shared}' may be any of" in unclear.stderr and "use a longer prefix of the id" in unclear.stderr


def test_log_shows_the_events_of_a_run(finished: Path) -> None:
    lines = roundel(finished, "log", "last").stdout.splitlines()
    told = [line[14:] for line in lines]
    assert told[0] == "started  press  tea"
    assert "Writer[1]  round 1 of 4 · Guard" in told
    assert f"Writer[1]/Editor  answered by {getpass.getuser()}  shorter" in told
    assert "waiting  for Writer[1]/Editor" in told
    assert told[-1] == "completed  second draft"
    events = [json.loads(line) for line in roundel(finished, "log", "last", "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    only = [
        json.loads(line)["address"]
        for line in roundel(finished, "log", "last", "--round", "Writer[2]", "--json").stdout.splitlines()
    ]
    assert set(only) >= {"Writer[2]", "Writer[2]/Writer"}
    assert all(address.startswith("Writer[2]") for address in only)


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_log_after_skips_events_already_read(finished: Path, follow: tuple[str, ...]) -> None:
    everything = roundel(finished, "log", "last", "--json").stdout.splitlines()
    for after in (0, 1, 7, len(everything) - 1, len(everything)):
        rest = roundel(finished, "log", "last", "--json", "--after", str(after), *follow)
        assert rest.stdout.splitlines() == everything[after:]
    nothing = roundel(finished, "log", "last", "--after", "7", "--round", "Writer[1]/Writer")
    assert nothing.exit_code == 1
    assert "has no event at 'Writer[1]/Writer'" in nothing.stderr and "after event 7" in nothing.stderr
    assert roundel(finished, "log", "last", "--after", "-1").exit_code == 2


def test_log_after_works_on_a_pruned_run(finished: Path) -> None:
    assert roundel(finished, "prune", "last", "--keep", "first").exit_code == 0
    everything = [json.loads(line) for line in roundel(finished, "log", "last", "--json").stdout.splitlines()]
    rest = roundel(finished, "log", "last", "--json", "--after", "9").stdout.splitlines()
    assert [json.loads(line) for line in rest] == [event for event in everything if event["seq"] > 9]
    assert 0 < len(rest) < len(everything)


def test_fork_starts_at_the_given_address(finished: Path) -> None:
    (old,) = runs(finished)
    forked = roundel(finished, "fork", "last", "--at", "Writer[2]", "--message", "Make it rhyme.", "--json")
    assert forked.exit_code == 4, forked.stderr
    new = runs(finished)[0]
    assert (new["parent"], new["forked_at"]) == (old["run_id"], "Writer[2]")
    assert json.loads(forked.stdout.splitlines()[-1])["run_id"] == new["run_id"]
    assert "changed  Make it rhyme." in roundel(finished, "log", "last", "--round", "Writer[2]").stdout
    printed = roundel(finished, "fork", old["run_id"], "--at", "Writer[1]", "--no-run")
    assert printed.stdout == f"{runs(finished)[0]['run_id']}\n"
    assert runs(finished)[0]["status"] == "running", "no process executes it yet"


def test_fork_accepts_another_script_and_workflow(finished: Path) -> None:
    (finished / "other.yaml").write_text("Writer: [a third draft]\nEditor: [OK]\n")
    done = roundel(finished, "fork", "last", "--at", "Writer[2]", "--script", "other.yaml")
    assert (done.exit_code, done.stdout) == (0, "a third draft\n")
    flow = (finished / "flow.yaml").read_text()
    (finished / "flow.yaml").write_text(flow.replace("max_iterations: 4", "max_iterations: 1"))
    path = str(finished / "flow.yaml")  # the run was started with this very file, before it was changed
    done = roundel(finished, "fork", "last", "--at", "Writer[1]/Editor", "--workflow", path)
    assert done.exit_code == 0
    replayed = roundel(finished, "replay", runs(finished)[-1]["run_id"], "--workflow", path)
    assert replayed.exit_code == 1
    assert replayed.stdout.startswith("Writer[2]/")


def test_locked_run_continues_as_a_fork_with_a_higher_limit(folder: Path) -> None:
    (folder / "script.yaml").write_text("Writer: [draft]\nEditor: [no, no, OK]\n")
    assert run(folder, "--limit", "rounds=2").exit_code == 3
    locked = roundel(folder, "resume", "last")
    assert locked.exit_code == 1
    assert "is locked" in locked.stderr and "roundel unlock" in locked.stderr
    assert roundel(folder, "replay", "last").exit_code == 0
    assert roundel(folder, "replay", "last", "--limit", "rounds=5").exit_code == 1
    done = roundel(folder, "fork", "last", "--limit", "rounds=5")
    assert (done.exit_code, done.stdout) == (0, "draft\n"), done.stderr


def test_fork_and_replay_with_another_variable(folder: Path) -> None:
    flow = folder / "flow.yaml"
    flow.write_text(flow.read_text().replace("max_iterations: 4", 'max_iterations: "${ROUNDS}"'))
    (folder / "script.yaml").write_text("Writer: [one, two, three, four]\nEditor: [no]\n")
    assert run(folder, "--var", "ROUNDS=2").exit_code == 0
    assert roundel(folder, "replay", "last", "--var", "ROUNDS=2").exit_code == 0
    replayed = roundel(folder, "replay", "last", "--var", "ROUNDS=3")
    assert (replayed.exit_code, replayed.stdout) == (1, "Writer[3]/Writer: runs now, and did not then\n")
    done = roundel(folder, "fork", "last", "--var", "ROUNDS=3")
    assert done.exit_code == 0, done.stderr
    assert "Writer[3]/Writer  completed  three" in done.stderr
    assert "two" not in done.stderr, "what has run is not repeated"
    flow.unlink()
    for command in ("fork", "replay"):
        gone = roundel(folder, command, "last", "--var", "ROUNDS=4")
        assert (gone.exit_code, gone.stdout) == (1, "")
        assert "flow.yaml, which no longer exists" in gone.stderr and "--workflow FILE" in gone.stderr


def test_limits_of_one_loop_are_inherited_and_raised_by_a_fork(folder: Path) -> None:
    (folder / "script.yaml").write_text("Writer: [draft]\nEditor: [no, no, OK]\n")
    assert run(folder, "--limit", "Writer.rounds=2").exit_code == 3
    assert roundel(folder, "replay", "last").exit_code == 0
    assert roundel(folder, "replay", "last", "--limit", "Writer.rounds=5").exit_code == 1
    again = roundel(folder, "fork", "last", "--at", "Writer[1]/Editor")
    assert again.exit_code == 3, again.stderr
    unknown = roundel(folder, "fork", "last", "--limit", "Wirter.rounds=5")
    assert (unknown.exit_code, "did you mean 'Writer'" in unknown.stderr) == (2, True)
    unlocked = roundel(folder, "unlock", "last", "--limit", "Writer.rounds=5", "--reason", "fine", *CHECKED)
    assert (unlocked.exit_code, "known limits: rounds" in unlocked.stderr) == (2, True)
    done = roundel(folder, "fork", "last", "--limit", "Writer.rounds=5")
    assert (done.exit_code, done.stdout) == (0, "draft\n"), done.stderr


def test_a_fork_shows_the_warnings_about_its_script_and_workflow(folder: Path) -> None:
    assert run(folder).exit_code == 4
    (folder / "other.yaml").write_text("Writer: [draft]\nEditor: [OK]\nEditr: [no]\n")
    (folder / "doubtful.yaml").write_text((folder / "flow.yaml").read_text() + "\ncolour: blue\n")
    given = ("--script", "other.yaml", "--workflow", "doubtful.yaml")
    forked = roundel(folder, "fork", "last", "--at", "Writer[1]", *given)
    assert forked.exit_code == 0, forked.stderr
    assert "other.yaml:3:1: warning: the script names 'Editr', which is not a node" in forked.stderr
    assert "the workflow has an unknown key 'colour' [unknown-key]" in forked.stderr
    assert "RoundelWarning" not in forked.stderr


def test_pause_and_stop_reasons_are_stored(folder: Path) -> None:
    assert run(folder).exit_code == 4
    assert roundel(folder, "pause", "last", "--reason", "lunch").exit_code == 0
    assert roundel(folder, "stop", "last", "--reason", "no tea today").exit_code == 0
    log = roundel(folder, "log", "last").stdout
    assert "paused  lunch" in log
    assert "no tea today" in log


CHECKED = ("--cause-understood", "--cost-accepted", "--workflow-reviewed")


def test_unlocked_run_resumes_in_the_same_round(folder: Path) -> None:
    (folder / "script.yaml").write_text("Writer: [draft]\nEditor: [no, no, OK]\n")
    assert run(folder, "--limit", "rounds=2").exit_code == 3
    refused: dict[tuple[str, ...], tuple[int, str]] = {
        (): (2, "missing: --reason TEXT, --cause-understood, --cost-accepted, --workflow-reviewed"),
        ("--reason", "fine", "--cause-understood"): (2, "missing: --cost-accepted, --workflow-reviewed"),
        CHECKED: (2, "missing: --reason TEXT\n"),
        ("--reason", "fine", *CHECKED, "--limit", "tokens=9"): (
            1,
            "'tokens' did not lock this run; rounds can be raised (--limit NAME=N)",
        ),
        ("--reason", "fine", *CHECKED, "--limit", "rounds=2"): (
            1,
            "the raised limit must be larger (--limit NAME=N)",
        ),
        ("--reason", "fine", *CHECKED, "--exit", "Nowhere"): (1, "lead to Final (--exit NODE)"),
    }
    for options, (code, message) in refused.items():
        done = roundel(folder, "unlock", "last", *options)
        assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    options = ("--reason", "the editor is nearly happy", "--by", "Kim", *CHECKED, "--limit", "rounds=5")
    done = roundel(folder, "unlock", "last", *options)
    assert (done.exit_code, done.stdout) == (0, "draft\n"), done.stderr
    log = roundel(folder, "log", "last").stdout
    assert "unlocked by Kim  the editor is nearly happy" in log
    assert roundel(folder, "unlock", "last", *options).exit_code == 1
    events = [json.loads(line) for line in roundel(folder, "log", "last", "--json").stdout.splitlines()]
    (unlocked,) = [event["data"] for event in events if event["event"] == "breaker_unlocked"]
    raised = {"path": "/limits/rounds", "before": 2, "after": 5}
    assert (unlocked["by"], unlocked["changes"]) == ("Kim", [raised])


def test_records_of_a_server_are_pruned_with_or_without_runs(finished: Path) -> None:
    async def records(write: bool) -> tuple[list[int], list[str]]:
        store = open_store(str(finished / ".roundel" / "runs.db"))
        try:
            docs = store.documents()
            for number in range(5) if write else ():
                await docs.put("workflows", "/tea", {"text": f"{number}"}, keep_history=True)
                await docs.append("audit", {"action": "workflow.save"})
            entries = await docs.entries("audit")
            versions = [one.version for one in await docs.versions("workflows", "/tea")]
            return versions, [one.body["action"] for one in entries]
        finally:
            await store.close()

    assert asyncio.run(records(write=True))[0] == [5, 4, 3, 2, 1]
    kept = roundel(finished, "prune", "--versions", "90d", "--audit-log", "90d")
    assert "deleted 0 versions" in kept.stderr and "deleted 0 entries" in kept.stderr
    pruned = roundel(finished, "prune", "last", "--keep", "last", "--versions", "2")
    assert "deleted 3 versions" in pruned.stderr and "pruned 1 run" in pruned.stderr
    versions, actions = asyncio.run(records(write=False))
    assert versions == [5, 4]
    assert actions == ["workflow.prune", "audit.prune", "workflow.prune", *["workflow.save"] * 5]
    pruned = roundel(finished, "prune", "--audit-log", "0s")
    assert pruned.exit_code == 0 and "deleted 8 entries" in pruned.stderr
    assert asyncio.run(records(write=False)) == ([5, 4], ["audit.prune"])


def test_pruned_runs_can_still_be_read(finished: Path) -> None:
    before = len(roundel(finished, "log", "last", "--json").stdout.splitlines())
    dry = roundel(finished, "prune", "--older-than", "0d", "--keep", "last", "--dry-run")
    assert (dry.stdout.split()[1:], "1 run would be pruned" in dry.stderr) == (["press", "completed"], True)
    pruned = roundel(finished, "prune", "last", "--keep", "last")
    assert pruned.exit_code == 0
    assert "pruned 1 run to 'last'" in pruned.stderr
    lines = roundel(finished, "log", "last").stdout
    assert "Writer[2]/Writer" in lines and "Writer[1]/Writer" not in lines
    assert len(roundel(finished, "log", "last", "--json").stdout.splitlines()) < before
    assert "1 round " in roundel(finished, "plot", "last").stdout
    assert runs(finished)[0]["kept"] == "last"
    for command in (["fork", "last", "--at", "Writer[2]"], ["replay", "last"], ["resume", "last"]):
        refused = roundel(finished, *command)
        assert refused.exit_code == 1 and "'last'" in refused.stderr, refused.stderr
    assert "pruned 1 run" in roundel(finished, "prune", "--older-than", "0s", "--keep", "nothing").stderr
    assert runs(finished) == []


def test_pruning_makes_the_file_smaller(folder: Path) -> None:
    (folder / "script.yaml").write_text(json.dumps({"Writer": os.urandom(200_000).hex(), "Editor": "OK"}))
    assert run(folder).exit_code == 0
    store = folder / ".roundel" / "runs.db"
    before = store.stat().st_size
    assert "smaller" in roundel(folder, "prune", "last", "--keep", "nothing").stderr
    assert store.stat().st_size < before / 2


# A store that no longer exists, or cannot be used.


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_run_fails_with_a_hint_when_its_store_disappears(tmp_path: Path, how: str) -> None:
    prepare(tmp_path, opened=False)
    store = tmp_path / ".roundel" / "runs.db"
    with has_started(tmp_path) as process:
        if how == "deleted":
            shutil.rmtree(store.parent)
        else:
            shutil.copy(store, tmp_path / "copy.db")
            (tmp_path / "copy.db").replace(store)
        open_gate(tmp_path)
        assert process.end() == 1
        assert "Error: .roundel/runs.db: the store was deleted, moved or replaced" in process.complaints
        assert "put back" in process.complaints
        assert "Finished steps are stored" not in process.complaints
        assert "Traceback" not in process.complaints
    assert store.exists() == (how == "replaced")


@pytest.mark.parametrize(
    "command", [["runs"], ["log", "last"], ["stop", "last"], ["memory", "list", "--group", "x"]]
)
def test_commands_report_the_problem_of_a_store(folder: Path, command: list[str]) -> None:
    (folder / "notes").mkdir()
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE places (url TEXT)")
    before = (folder / "other.db").read_bytes()
    places = {
        "notes": "Error: notes is a directory; a store is a file, for example notes/runs.db\n",
        "script.yaml/runs.db": "script.yaml is a file, not a folder; use another --store\n",
        "script.yaml": "Error: script.yaml is not a Roundel store: file is not a database",
        "other.db": "Error: other.db is not a Roundel store: it is the database of another program",
    }
    for place, said in places.items():
        done = roundel(folder, *command, "--store", place)
        assert (done.exit_code, done.stdout) == (1, "")
        assert said in done.stderr
    assert (folder / "other.db").read_bytes() == before


# Wrong input.

NO_RUN = [
    [command, "zzz", *more]
    for command, more in (
        ("log", []),
        ("plot", []),
        ("resume", []),
        ("pause", []),
        ("stop", []),
        ("answer", ["yes"]),
        ("fork", []),
        ("replay", []),
        ("prune", ["--keep", "best"]),
    )
]


@pytest.mark.parametrize("command", NO_RUN, ids=lambda command: command[0])
def test_unknown_run_is_rejected(folder: Path, command: list[str]) -> None:
    nowhere = roundel(folder, *command)
    assert nowhere.exit_code == 2
    assert "there is no store at .roundel/runs.db" in nowhere.stderr
    run(folder)
    unknown = roundel(folder, *command)
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "there is no run 'zzz'" in unknown.stderr and "roundel runs" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "flow.yaml", "--store", "a.db", "--no-store"], 2, "give one of them"),
        (["runs", "--status", "sleeping"], 2, "sleeping"),
        (["runs", "--limit", "0"], 2, "--limit"),
        (["log", "last", "--round", "Writer[7]"], 1, "has no event at 'Writer[7]'"),
        (["plot", "last", "--loop", "Nobody"], 2, "no loop 'Nobody'; it has Writer"),
        (["plot", "last", "--out", "nowhere/plot.svg"], 1, "cannot write"),
        (["resume", "last"], 1, "is over: it is completed"),
        (["pause", "last"], 1, "completed"),
        (["stop", "last"], 1, "completed"),
        (["answer", "last"], 1, "has no open question; its status is completed"),
        (["answer", "last", "yes"], 1, "has no open question; it is completed"),
        (["fork", "last"], 1, "--at ADDRESS"),
        (["fork", "last", "--at", "Nobody"], 1, "never reached 'Nobody'"),
        (["fork", "last", "--at", "Writer[1]", "--limit", "sandwiches=1"], 2, "no 'sandwiches'"),
        (["fork", "last", "--at", "Writer[1]", "--workflow", "none.yaml"], 2, "none.yaml"),
        (["fork", "last", "--at", "Writer[1]", "--script", "none.yaml"], 2, "none.yaml"),
        (["fork", "last", "--at", "Writer[1]", "--var", "TOPC=x"], 2, "no variable 'TOPC'"),
        (["fork", "last", "--at", "Writer[1]", "--var", "TOPIC"], 2, "--var"),
        (["replay", "last", "--var", "TOPC=x"], 2, "no variable 'TOPC'"),
        (["replay", "last", "--limit", "rounds=0"], 2, "a whole number above 0"),
        (["replay", "last", "--workflow", "none.yaml"], 2, "none.yaml"),
        (["prune", "--keep", "best"], 2, "say which runs"),
        (["prune", "last"], 2, "--keep"),
        (["prune", "last", "--versions", "20"], 2, "--keep"),
        (["prune", "--versions", "0"], 2, "not '0'"),
        (["prune", "--audit-log", "soon"], 2, "--audit-log takes a time"),
        (["prune", "--audit-log", "1d", "--dry-run"], 2, "--dry-run lists runs"),
        (["prune", "last", "--keep", "bits"], 2, "'bits' is not a selection of rounds"),
        (["prune", "last", "--keep", "every:0"], 2, "every:0"),
        (["prune", "last", "--keep", ","], 2, "name the rounds to keep"),
        (["prune", "--keep", "best", "--older-than", "soon"], 2, "not 'soon'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_arguments_are_rejected(finished: Path, arguments: list[str], code: int, said: str) -> None:
    done = roundel(finished, *arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_answer_to_an_address_without_question_is_rejected(folder: Path) -> None:
    run(folder)
    wrong = roundel(folder, "answer", "last", "OK", "--at", "Writer[2]/Editor")
    assert wrong.exit_code == 1
    assert "has no open question at 'Writer[2]/Editor'; open questions: Writer[1]/Editor" in wrong.stderr
    assert roundel(folder, "prune", "last", "--keep", "best").exit_code == 1


def test_answer_must_name_one_of_several_questions(folder: Path) -> None:
    (folder / "flow.yaml").write_text(
        "graph: {start: [Ada, Bo], nodes: [{id: Ada, type: human}, {id: Bo, type: human}]}\n"
    )
    run(folder)
    unclear = roundel(folder, "answer", "last", "yes")
    assert unclear.exit_code == 1
    assert "several open questions; select one (--at): Ada, Bo" in unclear.stderr
    assert roundel(folder, "answer", "last").stdout.count("Your answer?") == 2
    assert roundel(folder, "answer", "last", "yes", "--at", "Bo").exit_code == 4
    assert roundel(folder, "answer", "last", "no").exit_code == 0


def test_misspelt_approval_is_rejected(folder: Path) -> None:
    (folder / "flow.yaml").write_text(
        """
tools: {mean: {python: "statistics:mean", description: Mean}}
graph:
  start: Analyst
  nodes: [{id: Analyst, type: agent, config: {tools: [mean], approval: [mean]}}]
"""
    )
    (folder / "script.yaml").write_text(
        "Analyst: [{tool_calls: [{name: mean, arguments: {data: [1, 3]}}]}, done]\n"
    )
    complete = run(folder)
    assert complete.exit_code == 4, complete.stderr
    assert "approve" in roundel(folder, "answer", "last").stdout
    slip = roundel(folder, "answer", "last", "aprove")
    assert slip.exit_code == 2 and "Say approve, reject" in slip.stderr
    assert roundel(folder, "answer", "last", "approve").stdout == "done\n"


@pytest.mark.parametrize("command", [["runs"], ["run", "flow.yaml"], ["log", "last"]])
def test_commands_reject_an_in_memory_store(folder: Path, command: list[str]) -> None:
    refused = roundel(folder, *command, "--store", "memory:")
    assert refused.exit_code == 2
    assert "a store in memory ends with the command; name a file" in refused.stderr
