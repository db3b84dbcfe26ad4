"""Forks, and two runs side by side, in a browser."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.web.expectations import expect
from tests.web.site import Site

MESSAGE = "It promises nothing. Say when the tea arrives."


def _replies(texts: list[Any]) -> list[dict[str, Any]]:
    return [
        {"text": text if isinstance(text, str) else json.dumps(text), "tokens": {"input": 100, "output": 50}}
        for text in texts
    ]


@pytest.fixture(scope="module")
def pair(site: Site) -> tuple[str, str]:
    """A run of four rounds, and its fork at round 3 with another message and other limits."""
    parent = site.start("polish")
    site.wait(parent, "completed")
    # A script counts the rounds of the parent as well.
    script = {
        "Writer": _replies(
            ["", "", "Tea, in your cup by four.", "Picked early, yours by four.", "Yours by four."]
        ),
        "Critic": _replies(
            [{"score": score, "note": f"note {score}"} for score in (0, 0, 75, 88)]
            + [{"score": 95, "note": "Sold."}]
        ),
    }
    body = {"at": "Writer[3]", "message": MESSAGE, "limits": {"tokens": 8000}, "script": script}
    fork: str = site.call("POST", f"/runs/{parent}/fork", body)["id"]
    site.wait(fork, "completed")
    return parent, fork


def _figure(page: Page, name: str) -> list[str]:
    """The cells of one line of the figures: A, B and their difference."""
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return row.get_by_role("cell").all_inner_texts()


def test_a_fork_next_to_its_parent(page: Page, pair: tuple[str, str]) -> None:
    parent, fork = pair
    # The parent is A, whichever comes first in the address.
    page.goto(f"/runs/{fork}/compare/{parent}")
    expect(page.get_by_text("fork of A at Writer[3]")).to_be_visible()
    expect(page.get_by_role("link", name=f"Run A {parent[:8]}")).to_be_visible()
    expect(page.get_by_role("link", name=f"Run B {fork[:8]}")).to_be_visible()

    changes = page.get_by_role("region", name="What the fork changed")
    expect(changes.get_by_text("Message to Writer, before round 3")).to_be_visible()
    expect(changes.get_by_role("insertion")).to_contain_text("Say when the tea arrives")
    expect(changes.get_by_role("deletion")).to_contain_text("A picture. Now let me want it.")
    expect(changes.get_by_text("It replaced the last output of Gate.")).to_be_visible()
    expect(changes.get_by_text("6,000 8,000")).to_be_visible()
    expect(changes.get_by_text("The same nodes, edges and bounds.")).to_be_visible()

    assert _figure(page, "Rounds") == ["4", "5", "+1"]
    assert _figure(page, "Best score") == ["93 in 4", "95 in 5", "+2"]
    assert _figure(page, "Model calls") == ["8", "10", "+2"]
    # Two rounds of the parent with 640 tokens, and three of the fork with 300 each.
    assert _figure(page, "Tokens") == ["1,280", "1,540", "+260"]
    assert _figure(page, "of them new") == ["", "900", ""]
    words = page.get_by_role("region", name="In words")
    expect(words).to_contain_text("Both reached 90: A in round 4, B in round 5.")
    expect(words).to_contain_text("2 rounds are shared and were not paid for twice.")


def test_rounds_are_aligned_and_shared_ones_folded(page: Page, pair: tuple[str, str]) -> None:
    page.goto(f"/runs/{pair[0]}/compare/{pair[1]}")
    third = page.get_by_role("article", name="Writer[3]")
    expect(third).to_contain_text("Tea! Picked early! Drink it now!")
    expect(third.get_by_role("insertion").first).to_be_visible()
    expect(third).to_contain_text("note 75")
    expect(third).to_contain_text("+14")
    fifth = page.get_by_role("article", name="Writer[5]")
    expect(fifth).to_contain_text("Left after round 4")
    expect(fifth).to_contain_text("best of both")

    first = page.get_by_role("article", name="Writer[1]")
    expect(first).to_have_count(0)
    fold = page.get_by_role("button", name=re.compile("Rounds 1 to 2 are the same in both"))
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(first).to_contain_text("Our tea is very good.")

    page.get_by_role("radio", name="Plain").click()
    expect(third.get_by_role("insertion")).to_have_count(0)
    page.get_by_role("radio", name="Each with its last round").click()
    expect(third.get_by_role("deletion").first).to_be_visible()
    chart = page.get_by_role("img", name=re.compile("Scores of both runs"))
    expect(chart).to_have_attribute("aria-label", re.compile("B, round 5: 95"))


def test_a_fork_is_made_from_the_page(site: Site, page: Page, pair: tuple[str, str]) -> None:
    page.goto(f"/runs/{pair[0]}/compare/{pair[1]}")
    page.get_by_role("button", name="Fork B").click()
    dialog = page.get_by_role("dialog", name="Fork run")
    address = dialog.get_by_label("Address")
    expect(address).to_have_value("Writer[5]")
    address.fill("Writer[9]")
    expect(dialog.get_by_text("This run has not reached such an address.")).to_be_visible()
    address.fill("Writer[4]")
    dialog.get_by_label("Send another message").check()
    # What the writer would have read is offered for editing.
    expect(dialog.get_by_label("Message", exact=True)).to_have_value(re.compile("note 75"))
    dialog.get_by_label("Message", exact=True).fill("Shorter.")
    dialog.get_by_label("tokens", exact=True).fill("9000")
    dialog.get_by_role("radio", name="When somebody resumes it").click()
    dialog.get_by_role("button", name="Fork and compare").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("fork of A at Writer[4]")).to_be_visible()
    expect(page.get_by_role("region", name="What the fork changed")).to_contain_text("9,000")
    made = page.url.rpartition("/")[2]
    view = site.call("GET", f"/runs/{made}")
    assert (view["parent"], view["forked_at"], view["is_executed"]) == (pair[1], "Writer[4]", False)
    # The page follows the fork when it is resumed.
    expect(page.get_by_role("article", name="Writer[5]")).to_contain_text("Not reached yet")
    site.call("POST", f"/runs/{made}/resume")
    expect(page.get_by_role("article", name="Writer[5]")).not_to_contain_text("Not reached yet")


def test_nested_loops_are_aligned_by_address(site: Site, page: Page) -> None:
    parent = site.start("nested")
    site.wait(parent, "waiting")
    fork = site.call("POST", f"/runs/{parent}/fork", {"at": "Planner[2].Coder[2]"})["id"]
    site.wait(fork, "waiting")
    page.goto(f"/runs/{parent}/compare/{fork}")
    loops = page.get_by_label("Loop to compare")
    expect(loops).to_have_value("Planner[2].Coder")
    expect(page.get_by_role("button", name=re.compile("Round 1 is the same in both"))).to_be_visible()
    loops.select_option("Planner")
    second = page.get_by_role("article", name="Planner[2]")
    second.get_by_role("button", name=re.compile("Coder inside: 6 rounds in A, 6 in B")).click()
    expect(loops).to_have_value("Planner[2].Coder")


def test_different_workflows_are_called_different(site: Site, page: Page, pair: tuple[str, str]) -> None:
    other = site.start("letter")
    page.goto(f"/runs/{pair[0]}")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Compare …").click()
    expect(page).to_have_url(re.compile(f"/runs/{pair[0]}/compare/choose$"))
    page.get_by_label("Search by workflow, input or id").fill(other)
    page.get_by_role("link", name=re.compile("human_review")).click()
    expect(page.get_by_text("not related")).to_be_visible()
    expect(page.get_by_text("Different workflows: polish and human_review.")).to_be_visible()
    expect(page.get_by_role("region", name="In words")).to_contain_text("B is not over")


def test_many_rounds_are_drawn_where_they_are_seen(site: Site, page: Page) -> None:
    runs = [site.start("long"), site.start("long")]
    for run in runs:
        site.wait(run, "completed")
    page.goto(f"/runs/{runs[0]}/compare/{runs[1]}")
    expect(page.get_by_role("article", name="Tuner[1]", exact=True)).to_be_visible()
    assert page.get_by_role("article").count() < 60
    page.locator(".compare-rows").evaluate("pane => pane.scrollTo(0, pane.scrollHeight)")
    expect(page.get_by_role("article", name="Tuner[300]")).to_be_visible()
