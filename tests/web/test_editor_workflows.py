"""Where workflows come from and go to: templates, imported files and exported ones, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, FileChooser, Locator, Page

from tests.web.expectations import expect
from tests.web.site import Site

PLAIN = """\
# Comments stay.
graph:
  id: tea
  nodes:
    - {id: Writer, type: passthrough}
    - {id: Reviewer, type: human}
    - {id: Guard, type: loop_counter, config: {max_iterations: 4}}
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer}
    - {from: Reviewer, to: Guard}
    - {from: Guard, to: Writer}
    - {from: Guard, to: Final}
  start: Writer
  end: Final
"""
# The keys that ChatDev writes, as it writes them.
CHATDEV = """\
version: 0.4.0
vars: {}
graph:
  id: ''
  description: An article, and a longer one.
  is_majority_voting: false
  nodes:
    - id: Draft
      type: agent
      config:
        base_url: ${BASE_URL}
        api_key: ${API_KEY}
        provider: openai
        name: gpt-4o
        role: |
          Write an article.
        params:
          temperature: 0.1
        tooling: []
        retry: null
      description: ''
      context_window: 0
    - id: Rounds
      type: loop_counter
      config:
        max_iterations: 2
        reset_on_emit: true
        message: done
    - id: Expand
      type: agent
      config: {provider: openai, name: gpt-4o, role: Make it longer.}
  edges:
    - {from: Draft, to: Rounds}
    - from: Draft
      to: Draft
      trigger: true
      condition: 'true'
      carry_data: true
      keep_message: false
    - {from: Rounds, to: Draft}
    - {from: Rounds, to: Expand}
  log_level: DEBUG
  memory: []
  initial_instruction: ''
  start:
    - Draft
  end: []
"""
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    opened = site.page(browser)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    # What the policy of the page blocks is logged as well.
    opened.on("console", lambda entry: errors.append(entry.text) if "policy" in entry.text.lower() else None)
    yield opened
    opened.context.close()
    assert errors == []


def text_of(page: Page) -> str:
    """The text in the editor."""
    expect(page.locator(".cm-content")).to_be_visible()
    found: str = page.locator(".cm-content").evaluate("(content) => content.cmTile.view.state.doc.toString()")
    return found


def a_file(name: str, content: str | bytes) -> Any:
    body = content.encode() if isinstance(content, str) else content
    return {"name": name, "mimeType": "application/octet-stream", "buffer": body}


def choose(page: Page, *files: Any) -> Locator:
    """Imports files on the page of workflows, and returns the dialog."""
    page.goto("/workflows")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import").first.click()
    found: FileChooser = chooser.value
    found.set_files(list(files))
    return page.get_by_role("dialog")


def exported(page: Page, kind: str, tmp_path: Path) -> tuple[str, bytes]:
    """What an entry of the menu gives: the name of the file, and its content."""
    page.locator("button[aria-haspopup=menu][aria-label=More]").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=f"Export as {kind}").click()
    place = tmp_path / download.value.suggested_filename
    download.value.save_as(place)
    return place.name, place.read_bytes()


def test_an_empty_page_offers_ways_to_begin_and_templates_have_pictures(site: Site, page: Page) -> None:
    page.goto("/workflows")
    empty = page.locator(".plain-empty")
    expect(empty.get_by_role("link", name="New workflow")).to_have_attribute("href", "/workflows/new")
    expect(empty.get_by_role("button", name="Import")).to_be_visible()
    templates = {one["name"]: one for one in site.call("GET", "/templates")["templates"]}
    cards = page.get_by_role("region", name="Templates").get_by_role("listitem")
    expect(cards).to_have_count(len(templates))
    for name in templates:
        expect(page.get_by_role("img", name=f"The graph of {name}", exact=True)).to_be_visible()


def test_a_template_opens_in_the_editor_with_its_script(site: Site, page: Page) -> None:
    templates = {one["name"]: one for one in site.call("GET", "/templates")["templates"]}
    polish = templates["polish"]
    page.goto("/workflows")
    page.get_by_role("link", name="Use polish").click()
    expect(page).to_have_url(re.compile("template=polish"))
    assert text_of(page) == polish["text"]
    expect(page.locator(".editor-chip[role=status]")).to_have_text("new, not saved")
    page.get_by_role("button", name="Try it", exact=True).click()
    pane = page.get_by_role("region", name="Try it", exact=True)
    expect(pane.get_by_label("Script", exact=True)).to_have_value(polish["script"])
    expect(pane.get_by_label("Input", exact=True)).to_have_value(polish["input"])
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("my polish")
    dialog.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("/workflows/my%20polish/edit"))
    assert site.call("GET", "/workflows/my%20polish")["text"] == polish["text"]


def test_an_imported_file_is_shown_before_it_is_opened_or_saved(site: Site, page: Page) -> None:
    dialog = choose(page, a_file("tea.yaml", b"\xef\xbb\xbf" + PLAIN.encode()))
    expect(dialog.get_by_role("img", name="The graph of tea.yaml")).to_be_visible()
    expect(dialog.locator(".workflows-loops")).to_contain_text("at most 4 rounds, by Guard")
    name = dialog.get_by_label("Name")
    expect(name).to_have_value("tea")
    name.fill("green tea")
    dialog.get_by_role("button", name="Open tea.yaml in the editor").click()
    expect(page).to_have_url(re.compile("/workflows/new$"))
    assert text_of(page) == PLAIN
    # The name that was chosen is offered when it is saved.
    page.keyboard.press("Control+s")
    expect(page.get_by_role("dialog").get_by_label("Name")).to_have_value("green tea")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("/workflows/green%20tea/edit"))
    assert site.call("GET", "/workflows/green%20tea")["text"] == PLAIN


def test_files_with_errors_of_chatdev_and_no_texts_are_imported_at_once(site: Site, page: Page) -> None:
    site.save("wrong", PLAIN)
    dialog = choose(
        page,
        a_file("wrong.yaml", PLAIN.replace("id: tea", "id: wrong").replace("to: Final", "to: Nobody")),
        a_file("article.yml", CHATDEV),
        a_file("latin.yaml", "name: Café".encode("latin-1")),
        a_file("picture.png", PNG),
    )
    rows = {
        name: dialog.get_by_role("listitem", name=name)
        for name in ("wrong.yaml", "article.yml", "latin.yaml")
    }
    wrong, article = rows["wrong.yaml"], rows["article.yml"]
    expect(rows["latin.yaml"]).to_contain_text("no text in UTF-8")
    expect(dialog.get_by_role("listitem", name="picture.png")).to_contain_text("Only files with the endings")
    expect(wrong).to_contain_text("Nobody")
    expect(wrong.locator(".plain-chip-bad")).to_be_visible()
    expect(wrong).to_contain_text("There is a workflow wrong already.")
    expect(wrong.get_by_role("button", name="Save wrong.yaml")).to_be_disabled()
    expect(article.get_by_label("Name")).to_have_value("article")
    expect(article.get_by_role("img", name="The graph of article.yml")).to_be_visible()
    wrong.get_by_label("Name").fill("wrong 2")
    expect(wrong.get_by_role("button", name="Save wrong.yaml")).to_be_enabled()
    dialog.get_by_role("button", name="Save all").click()
    expect(wrong).to_contain_text("Saved as wrong 2.")
    expect(article).to_contain_text("Saved as article.")
    assert site.call("GET", "/workflows/wrong%202")["draft"]
    assert site.call("GET", "/workflows/article")["text"] == CHATDEV
    article.get_by_role("link", name="Edit article").click()
    expect(page).to_have_url(re.compile("/workflows/article/edit"))
    assert text_of(page) == CHATDEV


def test_a_dropped_file_can_replace_the_text_of_an_editor(site: Site, page: Page) -> None:
    site.save("dropped", PLAIN)
    page.goto("/workflows/dropped/edit")
    assert text_of(page) == PLAIN
    page.evaluate(
        """(text) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], "article.yaml"));
            const target = document.querySelector(".cm-content");
            for (const type of ["dragover", "drop"])
                target.dispatchEvent(new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true}));
        }""",
        CHATDEV,
    )
    page.get_by_role("dialog").get_by_role("button", name="Put article.yaml into this editor").click()
    expect(page.locator(".editor-chip[role=status]")).to_have_text("version 1, not saved")
    assert text_of(page) == CHATDEV
    page.keyboard.press("Control+z")
    expect(page.locator(".editor-chip[role=status]")).to_have_text("version 1")


def test_text_and_drawing_are_exported(site: Site, page: Page, tmp_path: Path) -> None:
    site.save("a%3A%20tea%3F", PLAIN)
    page.goto("/workflows/a:%20tea%3F/edit")
    assert text_of(page) == PLAIN
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("# more\n")
    # What is exported is what the editor shows.
    assert exported(page, "YAML", tmp_path) == ("a- tea-.yaml", PLAIN.encode() + b"# more\n")
    name, picture = exported(page, "SVG", tmp_path)
    assert name == "a- tea-.svg" and picture.startswith(b"<svg") and b"Writer" in picture
    name, pixels = exported(page, "PNG", tmp_path)
    assert name == "a- tea-.png" and pixels.startswith(PNG)
    size = re.search(rb'width="([\d.]+)" height="([\d.]+)"', picture)
    assert size is not None
    width, height = (int.from_bytes(pixels[at : at + 4]) for at in (16, 20))
    assert (width, height) == (int(float(size[1]) * 2), int(float(size[2]) * 2))


def test_the_page_of_a_workflow_leads_to_its_versions_and_exports(
    site: Site, page: Page, tmp_path: Path
) -> None:
    site.save("versions", PLAIN)
    site.save("versions", PLAIN + "# second\n", **{"if-match": '"1"'})
    page.goto("/workflows/versions")
    name, text = exported(page, "YAML", tmp_path)
    assert name == "versions.yaml" and yaml.safe_load(text)["graph"]["id"] == "tea"
    page.get_by_role("link", name="Compare and restore").click()
    drawer = page.get_by_role("dialog", name="Versions")
    drawer.get_by_role("button", name=re.compile("^Version 1")).click()
    drawer.get_by_role("button", name="Restore version 1").click()
    assert text_of(page) == PLAIN


def test_readers_may_export_and_cannot_import(site: Site, browser: Browser, tmp_path: Path) -> None:
    site.save("for readers", PLAIN)
    page = site.page(browser, token=site.token_for("viewer"))
    page.goto("/workflows")
    expect(page.get_by_role("link", name="for readers", exact=True)).to_be_visible()
    for name in ("New workflow", "Edit for readers", "Use polish"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Import")).to_have_count(0)
    page.get_by_role("link", name="for readers", exact=True).click()
    assert exported(page, "SVG", tmp_path)[0] == "for readers.svg"
    page.context.close()


def test_chinese(site: Site, browser: Browser) -> None:
    page = site.page(browser, locale="zh-CN")
    page.goto("/workflows")
    expect(page.get_by_role("link", name="新建工作流").first).to_be_visible()
    expect(page.get_by_role("link", name="使用 polish")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="导入").first.click()
    chooser.value.set_files([a_file("tea.yaml", PLAIN)])
    expect(page.get_by_role("dialog", name="导入工作流")).to_contain_text("循环 Writer")
    page.context.close()
