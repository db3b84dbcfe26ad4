"""The forms of the editor: what they show of the text, and what they write into it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.web.axe import findings
from tests.web.expectations import expect
from tests.web.site import ROOT, Site

NAMES = count(1)
FIXTURE = ROOT / "web/src/pages/editor/forms/testing/node_types.json"

LOOP = """# A parser, in rounds.
models: {cheap: {model: "openai:small"}}
tools:
  lookup: {python: "tests.web.tools:lookup"}
graph:
  id: parser
  nodes:
    - id: Coder
      type: agent
      config:
        role: Write the function.   # short
        x_ours: [1, 2]   # not known to anybody
    - id: Gate        # ends the loop
      type: loop
      config:
        max_rounds: 10
        exit_on_score: 95   # high
    - {id: Final, type: passthrough}
    - {id: Spare, type: passthrough}
  edges:
    - {from: Coder, to: Gate}
    - {from: Gate, to: Coder, port: continue}
    - {from: Gate, to: Final, port: exit}
    - {from: Coder, to: Spare, condition: {type: keyword, config: {any: [SPARE]}}}   # rarely
  start: Coder
  end: [Final, Spare]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


def _open(site: Site, browser: Browser, text: str = LOOP, **options: object) -> Page:
    name = f"forms{next(NAMES)}"
    site.save(name, text)
    page = site.page(browser, **options)
    page.goto(f"/workflows/{name}/edit")
    page.locator(".cm-content").wait_for()
    page.locator(".form-head").wait_for()
    return page


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    opened = _open(site, browser)
    yield opened
    opened.context.close()


def _form(page: Page) -> Locator:
    return page.locator(".editor-pane-form")


def _text(page: Page) -> str:
    """The text of the editor; its lines are all on the page."""
    return "\n".join(page.locator(".cm-line").all_text_contents())


def _select(page: Page, line: str) -> None:
    """Puts the cursor on a line of the text, which selects its item."""
    page.locator(".cm-line").filter(has_text=line).first.click()


def _change(page: Page, line: str, old: str, new: str) -> None:
    """Types into a line of the text."""
    page.locator(".cm-line").filter(has_text=line).first.click()
    page.keyboard.press("End")
    for _ in old:
        page.keyboard.press("Backspace")
    page.keyboard.type(new)


def _expect_line(page: Page, line: str) -> None:
    expect(page.locator(".cm-line").filter(has_text=line).first).to_be_visible()


def test_the_descriptions_of_the_tests_are_those_of_the_server(site: Site) -> None:
    now = site.call("GET", "/node-types?language=en")
    assert json.loads(FIXTURE.read_text("utf-8")) == now, f"write the answer of GET /node-types to {FIXTURE}"


def test_the_loop_form_writes_what_its_switches_say(page: Page) -> None:
    _select(page, "- id: Gate")
    form = _form(page)
    expect(form.get_by_role("heading", name="Gate")).to_be_visible()
    rounds = form.get_by_role("textbox", name="Max rounds")
    expect(rounds).to_have_value("10")
    rounds.fill("25")
    rounds.press("Enter")
    _expect_line(page, "max_rounds: 25")
    form.get_by_role("slider", name="Max rounds").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    _expect_line(page, "max_rounds: 2")
    form.get_by_role("switch", name="all speakers agree").click()
    _expect_line(page, "exit_condition: consensus")
    form.get_by_role("switch", name="no gain for some rounds").click()
    _expect_line(page, "patience: 2")
    form.get_by_role("textbox", name="Gain", exact=True).fill("1.5")
    form.get_by_role("textbox", name="Rounds without a gain").fill("4")
    form.get_by_role("textbox", name="Rounds without a gain").press("Enter")
    _expect_line(page, "min_delta: 1.5")
    _expect_line(page, "patience: 4")
    form.get_by_role("switch", name="the score is at least").click()
    expect(page.locator(".cm-line").filter(has_text="exit_on_score")).to_have_count(0)
    form.get_by_role("radio", name="Best round").click()
    form.get_by_role("switch", name="Pause before this node").click()
    _expect_line(page, "keep: best")
    _expect_line(page, "debug: true")
    form.get_by_role("combobox", name="Where exit leads").select_option("Spare")
    _expect_line(page, "- {from: Gate, to: Spare, port: exit}")
    # Everything else is as it was.
    kept = [
        "# A parser, in rounds.",
        "# ends the loop",
        "x_ours: [1, 2]   # not known to anybody",
        "# rarely",
    ]
    assert all(part in _text(page) for part in kept)


def test_the_loop_form_follows_the_text(page: Page) -> None:
    _select(page, "- id: Gate")
    form = _form(page)
    expect(form.get_by_role("switch", name="the score is at least")).to_be_checked()
    _change(page, "max_rounds: 10", "10", "7")
    expect(form.get_by_role("textbox", name="Max rounds")).to_have_value("7")
    expect(form.get_by_role("slider", name="Max rounds")).to_have_value("7")
    _change(page, "exit_on_score", "95   # high", "0")
    expect(form.get_by_role("switch", name="the score is at least")).not_to_be_checked()
    page.keyboard.insert_text("\n        exit_condition: consensus\n        patience: 2")
    expect(form.get_by_role("switch", name="all speakers agree")).to_be_checked()
    expect(form.get_by_role("switch", name="no gain for some rounds")).to_be_checked()
    page.keyboard.insert_text("\n        keep: [")
    expect(form.get_by_text("The text cannot be read")).to_be_visible()
    expect(form.get_by_role("textbox", name="Max rounds")).to_be_disabled()
    expect(form.get_by_role("switch", name="all speakers agree")).to_be_checked()


def test_a_score_is_tried_on_a_text(page: Page) -> None:
    _select(page, "- id: Gate")
    form = _form(page)
    form.get_by_role("textbox", name="Try it on").fill('Fine: {"score": 85}')
    expect(form.locator(".form-verdict")).to_have_text("85continuebelow 95→ Coder")
    form.get_by_role("radio", name="Regex").click()
    form.get_by_role("textbox", name="Pattern").fill(r"is (\d+)")
    form.get_by_role("textbox", name="Pattern").press("Enter")
    _expect_line(page, "regex: is (\\d+)")
    form.get_by_role("textbox", name="Try it on").fill("It is 97.")
    expect(form.locator(".form-verdict")).to_have_text("97exitreaches 95→ Final")


def test_the_condition_of_an_edge_is_built_and_tried(page: Page) -> None:
    _select(page, "{from: Coder, to: Spare")
    form = _form(page)
    fires = form.get_by_role("combobox", name="Fires")
    expect(fires).to_have_value("keyword")
    form.get_by_role("textbox", name="Try it on").fill("no SPARE time")
    expect(form.locator(".form-verdict")).to_have_text("fires")
    form.get_by_role("textbox", name="Any of 1").fill("ASIDE")
    form.get_by_role("textbox", name="Any of 1").press("Enter")
    _expect_line(page, "config: {any: [ASIDE]}}}   # rarely")
    expect(form.locator(".form-verdict")).to_have_text("does not fire")
    fires.select_option("by an expression")
    expression = form.get_by_role("textbox", name="Expression")
    expression.fill('text.contains("time")')
    expression.press("Control+Enter")
    _expect_line(page, "cel:")
    expect(form.locator(".form-verdict")).to_have_text("fires")
    fires.select_option("always")
    _expect_line(page, "- {from: Coder, to: Spare}   # rarely")


def test_the_fields_of_an_agent_change_only_their_lines(page: Page) -> None:
    before = _text(page)
    _select(page, "- id: Coder")
    form = _form(page)
    role = form.get_by_role("textbox", name="Role")
    role.fill("Write the tests.")
    role.press("Escape")
    expect(role).to_have_value("Write the function.")
    role.fill("Write the tests.")
    role.press("Control+Enter")
    _expect_line(page, "role: Write the tests.   # short")
    form.get_by_role("combobox", name="Model", exact=True).select_option("cheap")
    _expect_line(page, "profile_id: cheap")
    form.get_by_role("combobox", name="Add to Tools").select_option("lookup")
    _expect_line(page, "lookup")
    form.get_by_role("slider", name="Rounds of tools").focus()
    page.keyboard.press("Home")
    _expect_line(page, "max_tool_calls: 0")
    form.get_by_role("switch", name="Structured answer").click()
    _expect_line(page, "output_schema:")
    expect(form.get_by_role("button", name="x_ours")).to_be_visible()
    _expect_line(page, "x_ours: [1, 2]   # not known to anybody")
    for _ in range(5):
        page.get_by_role("button", name="Undo").click()
    _expect_line(page, "role: Write the function.   # short")
    assert _text(page) == before


SETTINGS = """# What a run may use.
models:
  default: {model: "openai:gpt-4o"}   # for all
  cheap: {model: "openai:small", x_ours: 1}
graph:
  id: settings
  limits:
    tokens: 60000   # enough
    x_ours: 2
  breaker: {window: 4}
  memory:
    - {name: board, type: blackboard}   # shared
  nodes:
    - {id: Coder, type: agent, config: {profile_id: cheap, memories: [board]}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Coder, to: Final}
  start: Coder
  end: Final
"""


def _fold(page: Page, name: str, number: int = 0) -> None:
    _form(page).get_by_role("button", name=name, exact=True).nth(number).click()


def test_limits_and_the_breaker_say_what_they_do_and_change_only_their_lines(
    site: Site, browser: Browser
) -> None:
    page = _open(site, browser, SETTINGS)
    form = _form(page)
    _fold(page, "Limits")
    expect(form.get_by_text("Locks the run after 60,000 tokens.")).to_be_visible()
    form.get_by_role("textbox", name="Tokens", exact=True).fill("80000")
    expect(form.get_by_text("Locks the run after 80,000 tokens.")).to_be_visible()
    form.get_by_role("switch", name="Cost", exact=True).click()
    expect(form.get_by_text("Locks the run after $1.00.")).to_be_visible()
    form.get_by_role("textbox", name="Cost", exact=True).fill("${BUDGET}")
    expect(form.get_by_text("Locks the run after ${BUDGET}.")).to_be_visible()
    _fold(page, "Limits")
    _fold(page, "Breaker")
    expect(form.get_by_text("at least 4 messages, in two rounds in a row")).to_be_visible()
    form.get_by_role("switch", name="Token surge").click()
    expect(form.get_by_text("A run may use far more tokens than the forecast expects.")).to_be_visible()
    expected = SETTINGS.replace("60000   # enough", "80000   # enough").replace(
        "    x_ours: 2\n", "    x_ours: 2\n    cost_usd: ${BUDGET}\n"
    )
    expected = expected.replace("{window: 4}", "{window: 4, token_surge: false}")
    _expect_line(page, "token_surge: false")
    assert _text(page) == expected
    # And back: what the text says is in the form.
    form.get_by_role("switch", name="Enabled").click()
    expect(form.get_by_text("Nothing watches the run.")).to_be_visible()
    page.context.close()


def test_model_profiles_and_memories_name_who_uses_them(site: Site, browser: Browser) -> None:
    page = _open(site, browser, SETTINGS)
    form = _form(page)
    _fold(page, "cheap")
    # The profile and the memory.
    expect(form.get_by_text("Used by Coder.")).to_have_count(2)
    form.get_by_label("Add to Fallback").select_option("default")
    expect(form.get_by_text("Then default, in this order.")).to_be_visible()
    expect(form.get_by_role("button", name="x_ours")).to_be_visible()
    expect(form.get_by_text("The latest answers of agents.")).to_be_visible()
    _select(page, "{id: Coder")
    expect(
        form.get_by_text("Before it answers, the agent reads up to 3 entries. Its answer is added.")
    ).to_be_visible()
    form.get_by_role("switch", name="Write", exact=True).click()
    expect(form.get_by_text("Its answer is added.")).to_have_count(0)
    assert findings(page, ".form") == []
    expected = SETTINGS.replace("x_ours: 1}", "x_ours: 1, fallback: [default]}").replace(
        "memories: [board]", "memories: [{name: board, write: false}]"
    )
    _expect_line(page, "write: false")
    assert _text(page) == expected
    page.context.close()


def test_settings_speak_chinese(site: Site, browser: Browser) -> None:
    page = _open(site, browser, SETTINGS, locale="zh-CN")
    form = _form(page)
    _fold(page, "限额")
    expect(form.get_by_text("达到 60,000 个 token 后锁定运行。")).to_be_visible()
    page.context.close()


def test_the_forms_speak_chinese(site: Site, browser: Browser) -> None:
    page = _open(site, browser, locale="zh-CN")
    _select(page, "- id: Gate")
    form = _form(page)
    expect(form.get_by_role("textbox", name="最多轮次")).to_have_value("10")
    expect(form.get_by_role("heading", name="离开循环的条件")).to_be_visible()
    _select(page, "- id: Coder")
    expect(form.get_by_role("textbox", name="角色")).to_be_visible()
    page.context.close()


def test_nothing_is_wrong_for_screen_readers(page: Page) -> None:
    text = page.get_by_role("group", name="Views").get_by_role("button", name="YAML")
    for line in ("- id: Gate", "- id: Coder", "{from: Coder, to: Spare"):
        _select(page, line)
        # The text has a test of its own.
        text.click()
        expect(_form(page).locator(".form-head")).to_be_visible()
        assert findings(page) == []
        text.click()
        page.locator(".cm-content").wait_for()
