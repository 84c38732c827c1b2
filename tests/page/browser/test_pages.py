"""Pages in Chromium: numbers, widths, themes, keyboard, print, and what runs without scripts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.page.pages import MOST_BYTES, TABLES, Page, held, json_report, make_page
from tests.page.recordings import RECIPES, SCRIPT

WIDTHS = (360, 768, 1280, 1920, 3840)
INTERACTIVE = "a[href], button:not([hidden]), summary, [tabindex], input, select"


@pytest.fixture(scope="session")
def page(plimsoll_command, recording, tmp_path_factory) -> Callable[[str], Page]:
    folder = tmp_path_factory.mktemp("pages")
    made: dict[str, Page] = {}

    def make(name: str) -> Page:
        if name not in made:
            made[name] = make_page(plimsoll_command, recording(name), folder / f"{name}.html")
        return made[name]

    return make


TWO_FRAMES = "() => new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))"
ROWS = """(article) => Object.fromEntries(
  [...article.querySelectorAll("table[data-table]")].map((table) => [
    table.dataset.table,
    [...table.querySelectorAll("tbody tr[data-key]")].map(
      (row) => [row.dataset.key, Number(row.dataset.bytes)]),
  ]))"""
COLUMNS = """(article) => {
  const columns = article.querySelector(".over-time svg.wide .columns");
  return columns ? [...columns.children].map((column) => Number(column.dataset.bytes)) : [];
}"""


@pytest.mark.parametrize("name", RECIPES)
def test_bytes_in_tables_and_chart_are_those_of_the_report(open_page, page, name):
    made = page(name)
    assert made.path.stat().st_size < MOST_BYTES
    opened = open_page(made.path)
    if name == "ranks":  # the page shows the rank that differs, but the report is of rank 0
        return
    articles = opened.page.locator("article").element_handles()
    for article in articles:
        device = article.get_attribute("data-device")
        columns = article.evaluate(COLUMNS)
        if columns and made.point(device)["unexplained_bytes"] >= 0:
            assert max(columns) == held(made.device(device))["peak_bytes"]
        elif columns:  # contradictory events and blocks: the live set
            assert max(columns) == made.point(device)["live_bytes"]
        tables = article.evaluate(ROWS)
        for table in set(TABLES) & set(tables):
            expected = {key[:300]: size for key, size in made.rows(device, table).items()}
            shown = tables[table]
            older = max(0, made.point(device)["unexplained_bytes"])  # in a separate row
            assert sum(size for _, size in shown) == made.point(device)["live_bytes"] + older
            for key, size in shown:
                assert expected.get(key[:300], size) == size, key


def test_ranks_have_a_row_each_with_their_peaks(open_page, page, recording, plimsoll_command):
    opened = open_page(page("ranks").path)
    rows = opened.page.locator("section[data-section=ranks] tbody tr")
    shown = {row.get_attribute("data-key"): row.get_attribute("data-bytes") for row in rows.all()}
    for rank, path in enumerate(recording("ranks")):
        report = make_page(plimsoll_command, [path], path.with_suffix(".html")).report
        (device,) = report["devices"]
        assert shown[f"rank {rank}"] == str(held(device)["peak_bytes"])
    # The leak, then that its rank differs from the others.
    verdict = opened.page.locator("section[data-section=verdict]").first
    assert verdict.locator("h1").inner_text().startswith("Rank 2: Memory on cpu grows by ")
    assert (
        verdict.locator("[data-finding=ranks_differ]").inner_text().startswith("Rank 2 peaks at ")
    )
    opened.page.click("nav a[href='#ranks']")
    assert opened.page.locator("#ranks h2").first.inner_text() == "Ranks"


CLICK_COLUMNS = """(article) => {
  const svgs = [...article.querySelectorAll(".over-time > svg")];
  const svg = svgs.find((each) => each.checkVisibility());
  const columns = [...svg.querySelector(".columns").children];
  const point = article.querySelector(".point");
  const wrong = [];
  for (let at = 0; at < columns.length; at += Math.floor(columns.length / 16)) {
    columns[at].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const wanted = Number(columns[at].dataset.bytes);
    const caption = Number(point.querySelector("[data-bytes]").dataset.bytes);
    if (caption !== wanted) wrong.push([at, "caption", caption, wanted]);
    for (const table of article.querySelectorAll("table[data-table]")) {
      if (!TABLES.includes(table.dataset.table)) continue;
      const sizes = [...table.tBodies[0].rows].map((row) => Number(row.dataset.bytes));
      const sum = sizes.reduce((all, size) => all + size, 0);
      if (sum !== wanted) wrong.push([at, table.dataset.table, sum, wanted]);
    }
  }
  return wrong;
}"""


@pytest.mark.parametrize("width", [380, 800, 1300])
@pytest.mark.parametrize("name", ["llama", "fragmented", "no_stacks", "older_memory", "splatting"])
def test_at_every_width_tables_sum_to_the_column_that_is_clicked(open_page, page, name, width):
    opened = open_page(page(name).path, width)
    article = opened.page.locator("article").first
    # The tables of a point that is not the initial one follow after the data are unpacked.
    opened.page.locator(".hint").first.wait_for()
    assert article.evaluate(CLICK_COLUMNS.replace("TABLES", str(list(TABLES)))) == []


@pytest.mark.parametrize("name", ["cpu_training", "llama", "fragmented"])
def test_a_column_that_is_clicked_fills_the_tables(open_page, page, name):
    opened = open_page(page(name).path)
    article = opened.page.locator("article").first
    before = article.evaluate(ROWS)
    column = article.locator(".over-time svg.wide .columns > *").nth(100)
    wanted = int(column.get_attribute("data-bytes"))
    column.click()
    point = article.locator(".point")
    point.locator("button").wait_for()
    assert int(point.locator("[data-bytes]").get_attribute("data-bytes")) == wanted
    after = article.evaluate(ROWS)
    for table in set(TABLES) & set(after):
        assert sum(size for _, size in after[table]) == wanted, table
    point.locator("button").click()
    assert article.evaluate(ROWS) == before


@pytest.fixture(scope="session")
def rows_at(plimsoll_command, recording) -> Callable[..., dict[str, dict[str, int]]]:
    """The tables of a device at a point, as the JSON report has them."""

    def rows(name: str, device: str, at: str) -> dict[str, dict[str, int]]:
        path = recording(name)[0]
        whole = Page(path, "", json_report(plimsoll_command, path, at))
        return {table: whole.rows(device, table) for table in TABLES}

    return rows


@pytest.mark.parametrize("width", [380, 1300])
@pytest.mark.parametrize("name", ["llama", "fragmented"])
def test_the_failure_and_the_peak_are_selected_exactly(open_page, page, rows_at, name, width):
    opened = open_page(page(name).path, width)
    article = opened.page.locator("article").first
    device = article.get_attribute("data-device")
    expected = {at: rows_at(name, device, at) for at in ("oom", "peak")}
    opened.page.locator(".named button").first.wait_for()
    chart = article.locator(".over-time > svg:visible")
    marks = chart.locator(".marks > *")

    def check(at):
        shown = article.evaluate(ROWS)
        for table in set(TABLES) & set(shown):
            wanted, rows = expected[at][table], dict(shown[table])
            assert sum(rows.values()) == sum(wanted.values()), (at, table)
            assert {key: wanted.get(key, size) for key, size in rows.items()} == rows, (at, table)

    check("oom")  # as the page opens
    marks.nth(1).click()
    check("peak")
    marks.nth(0).click()
    check("oom")
    article.locator(".named button", has_text="Peak").click()
    check("peak")
    assert article.locator(".named button", has_text="Peak").get_attribute("aria-pressed") == "true"
    chart.focus()
    opened.page.keyboard.press("o")
    check("oom")
    opened.page.keyboard.press("p")
    check("peak")
    opened.page.keyboard.press("Escape")
    check("oom")
    opened.page.keyboard.press("Home")
    opened.page.keyboard.press("End")
    for _ in range(4):  # the arrow keys also visit the failure
        if "ran out of memory" in article.locator(".point").inner_text():
            break
        opened.page.keyboard.press("ArrowLeft")
    check("oom")


def test_parts_that_keep_their_point_in_time_are_labeled(open_page, page):
    opened = open_page(page("llama").path)
    article = opened.page.locator("article").first
    opened.page.locator(".named button").first.wait_for()
    assert article.locator("[data-stays]:visible").count() == 0
    article.locator(".named button", has_text="Peak").click()
    texts = article.locator("[data-stays]:visible").all_inner_texts()
    assert texts == [
        "The layers are shown when memory ran out, not at the selected point.",
        "The segments are shown when memory ran out, not at the selected point.",
    ]
    assert "at its peak" in article.locator("[data-place]").inner_text()


def not_used_again(report: dict[str, Any]) -> int:
    rows = report["tables"]["by_use"]
    return sum(row["bytes"] for row in rows if row["key"] == "not used again")


@pytest.mark.parametrize("width", [380, 1300])
def test_what_is_not_used_again_is_that_of_the_table_by_use(
    open_page, page, recording, plimsoll_command, width
):
    opened = open_page(page("last_uses").path, width)
    article = opened.page.locator("article").first
    opened.page.locator(".named button").first.wait_for()
    chart = article.locator(".over-time > svg:visible")
    assert "not used again" in chart.locator("text").all_text_contents()
    assert chart.locator("[fill$='-falling)']").count() > 1  # the legend and the bands
    columns = chart.locator(".columns > *")
    count = columns.count()
    seen = set()
    for at in (None, *range(count // 8, count, count // 8)):
        if at is not None:
            columns.nth(at).dispatch_event("click", {"bubbles": True})
        caption = article.locator(".point")
        event = re.search(r"event ([0-9,]+)", caption.inner_text()).group(1).replace(",", "")
        report = json_report(plimsoll_command, recording("last_uses")[0], event)
        unused = int(caption.locator("[data-unused]").get_attribute("data-unused"))
        assert unused == not_used_again(report), event
        seen.add(unused)
    assert len(seen) > 4
    columns.nth(count // 2).hover()
    assert " not used again\n" in chart.locator("xpath=..").locator(".tip").inner_text()


def test_the_sentence_on_last_uses_is_apart_from_what_precedes_it(open_page, page):
    opened = open_page(page("last_uses").path)
    space = opened.page.locator(".last-use").first.evaluate(
        "(it) => it.getBoundingClientRect().top "
        "- it.previousElementSibling.getBoundingClientRect().bottom"
    )
    assert space >= 12


def test_pages_without_uses_state_nothing_about_them(open_page, page):
    opened = open_page(page("fragmented").path)
    opened.page.locator(".named button").first.wait_for()
    assert opened.page.locator("[data-unused]").count() == 0
    assert "not used again" not in opened.page.locator("body").inner_text()


INNER_LINES = """(article) => [...article.querySelectorAll("table[data-table=line] tbody tr")].map(
  (row) => [Number(row.dataset.bytes),
            [...row.querySelectorAll("[data-inner]")].map((part) => Number(part.dataset.size))])"""


def test_lines_inside_packages_sum_to_their_line_at_every_point(open_page, page):
    made = page("llama")
    opened = open_page(made.path)
    article = opened.page.locator("article").first
    opened.page.locator(".named button").first.wait_for()
    columns = article.locator(".over-time svg.wide .columns > *")
    for at in (None, 100, 300, 500):
        if at is not None:
            columns.nth(at).dispatch_event("click", {"bubbles": True})
        rows = article.evaluate(INNER_LINES)
        assert any(parts for _, parts in rows)
        for size, parts in rows:
            assert not parts or sum(parts) == size


@pytest.mark.parametrize("name", RECIPES)
def test_no_page_scrolls_sideways(open_page, page, name):
    opened = open_page(page(name).path)
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.page.evaluate("() => document.documentElement.scrollWidth") <= width
        charts = opened.page.locator(".over-time > svg:visible")
        assert charts.count() == opened.page.locator(".over-time").count()


BROKEN_WORDS = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const broken = new Set();
  while (texts.nextNode()) {
    const text = texts.currentNode;
    for (const word of text.textContent.matchAll(/[\p{L}\d]+/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const tops = [...range.getClientRects()].map((box) => Math.round(box.top));
      if (new Set(tops).size > 1) broken.add(word[0]);
    }
  }
  return [...broken];
}"""
CUT_HEADERS = """() => [...document.querySelectorAll("h1, h2, h3, thead th, .top > *")]
  .filter((head) => head.scrollWidth > head.clientWidth + 1 && head.getClientRects().length)
  .map((head) => head.textContent)"""
INDENTS = """() => [...document.querySelectorAll('[data-table="layers"] tbody tr')].map((row) => {
  const range = document.createRange();
  range.selectNodeContents(row.cells[0]);
  return [row.dataset.key, range.getBoundingClientRect().left];
})"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["deep", "cpu_training", "holders"])
def test_no_word_is_broken_and_no_header_is_cut(open_page, page, name, width):
    opened = open_page(page(name).path, width)
    opened.page.evaluate("() => document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert opened.page.evaluate(BROKEN_WORDS) == []
    assert opened.page.evaluate(CUT_HEADERS) == []


@pytest.mark.parametrize("width", [360, 1280])
def test_every_level_of_layers_is_indented(open_page, page, width):
    opened = open_page(page("deep").path, width)
    left: dict[str, float] = dict(opened.page.evaluate(INDENTS))
    nested = sorted((key for key in left if key.startswith("Wrap")), key=lambda key: key.count("."))
    levels = {key.count("."): left[key] for key in nested}
    assert len(levels) > 10
    assert sorted(levels.values()) == list(levels.values())
    assert len(set(levels.values())) == len(levels)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", RECIPES)
def test_axe_finds_no_violation(open_page, page, axe, name, theme):
    opened = open_page(page(name).path, theme=theme)
    opened.page.evaluate("() => document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert axe(opened) == []
    if theme == "light":
        opened.page.set_viewport_size({"width": 360, "height": 800})
        opened.page.evaluate(TWO_FRAMES)  # the page observes its boxes
        assert axe(opened) == []


def test_the_theme_can_be_chosen(open_page, page):
    opened = open_page(page("cpu_training").path)
    background = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = opened.page.evaluate(background)
    opened.page.click("button.theme")
    assert opened.page.evaluate(background) != light
    opened.page.click("button.theme")
    assert opened.page.evaluate(background) == light


@pytest.mark.parametrize("name", ["cpu_training", "llama", "ranks", "hostile_names"])
def test_every_interactive_element_is_reached_by_the_keyboard(open_page, page, name):
    opened = open_page(page(name).path)
    number = """(selector) => {
      const shown = [...document.querySelectorAll(selector)].filter(
        (each) => each.checkVisibility() && each.getAttribute("tabindex") !== "-1");
      shown.forEach((each, at) => { each.dataset.at = at; });
      return shown.length;
    }"""
    count = opened.page.evaluate(number, INTERACTIVE)
    assert count > 3
    reached: list[Any] = []
    for _ in range(count):
        opened.page.keyboard.press("Tab")
        reached.append(opened.page.evaluate("() => document.activeElement.dataset.at"))
        outline = "() => getComputedStyle(document.activeElement).outlineStyle"
        assert opened.page.evaluate(outline) != "none"
    assert reached == [str(at) for at in range(count)]


ZOOMED = """(zoomed) => ({
  events: [...zoomed.querySelectorAll(".ends span")].map((each) => each.textContent),
  columns: [...zoomed.querySelectorAll(".columns rect")].map((each) => [
    Number(each.dataset.at), Number(each.getAttribute("x")), Number(each.getAttribute("width"))]),
  tops: [...zoomed.querySelectorAll("svg > rect")].map((each) => Number(each.getAttribute("y"))),
})"""


def test_a_span_is_dragged_zoomed_and_reset(open_page, page, axe):
    opened = open_page(page("cpu_training").path).page
    zoomed, chart = opened.locator(".zoom").first, opened.locator("svg.wide").first
    caption = opened.locator(".point").first.text_content()
    assert zoomed.is_hidden()
    box = chart.locator(".columns").bounding_box()
    y = box["y"] + box["height"] / 2
    opened.mouse.move(box["x"] + box["width"] * 0.5, y)
    opened.mouse.down()
    opened.mouse.move(box["x"] + box["width"] * 0.25, y, steps=5)
    opened.mouse.up()
    assert zoomed.is_visible()
    assert opened.locator(".point").first.text_content() == caption  # no point was clicked
    half = zoomed.evaluate(ZOOMED)
    assert min(half["tops"]) == pytest.approx(0, abs=0.01)  # the highest column fills the height
    edges = [(x, x + width) for _, x, width in half["columns"]]
    assert edges[0][0] == 0
    assert edges[-1][1] == pytest.approx(1000)
    assert all(a[1] == pytest.approx(b[0]) for a, b in itertools.pairwise(edges))
    # A column of the span selects the same point as in the whole chart.
    row = half["columns"][len(half["columns"]) // 2][0]
    zoomed.locator(f".columns rect[data-at='{row}']").dispatch_event("click")
    assert chart.locator(".chosen").count() == 1
    # The keyboard zooms around the chosen point, and resets.
    chart.focus()
    opened.keyboard.press("+")
    quarter = zoomed.evaluate(ZOOMED)
    assert 0 < len(quarter["columns"]) < len(half["columns"])
    assert row in [at for at, _, _ in quarter["columns"]]
    assert zoomed.locator("button").count() == 3
    opened.keyboard.press("-")
    opened.keyboard.press("-")
    opened.keyboard.press("0")
    assert zoomed.is_hidden()
    opened.keyboard.press("+")
    zoomed.get_by_role("button", name="Zoom in").press("Enter")
    assert zoomed.get_by_role("button", name="Zoom in").evaluate(
        "e => e === document.activeElement"
    )
    zoomed.get_by_role("button", name="Whole run").press("Enter")
    assert zoomed.is_hidden()
    assert chart.evaluate("e => e === document.activeElement")


def test_the_keyboard_chooses_a_point_and_sorts(open_page, page):
    opened = open_page(page("cpu_training").path)
    opened.page.focus(".over-time svg.wide")
    point = opened.page.locator("article .point").first
    initial = point.inner_text()
    opened.page.keyboard.press("Home")
    assert point.inner_text() != initial
    opened.page.keyboard.press("Escape")
    assert point.inner_text() == initial
    table = opened.page.locator("table[data-table=category]").first
    opened.page.focus("table[data-table=category] thead button")
    opened.page.keyboard.press("Enter")
    names = [cell.inner_text() for cell in table.locator("tbody th").all()]
    assert names == sorted(names)


@pytest.mark.parametrize("name", RECIPES)
def test_without_scripts_the_verdict_the_chart_and_the_tables_are_there(open_page, page, name):
    made = page(name)
    opened = open_page(made.path, scripts=False)
    verdict = opened.page.locator("section[data-section=verdict] h1").first
    assert verdict.is_visible()
    findings, label = made.report["findings"], opened.page.locator(".verdict .severity").first
    if name != "ranks" and findings:
        # Facts are no reason to call a healthy run anything else.
        is_calm = " is wasted: " in verdict.inner_text()
        assert is_calm or verdict.inner_text() == findings[0]["title"]
        assert not is_calm or all(each["is_fact"] for each in findings)
        expected = "no warning" if is_calm else findings[0]["severity"]
        assert label.inner_text().lower() == expected
    charts = opened.page.locator(".over-time")
    for at in range(charts.count()):
        box = charts.nth(at).locator("svg:visible").bounding_box()
        assert box["width"] > 300
        assert box["height"] > 100
    assert opened.page.locator("button:visible").count() == 0
    if charts.count():
        assert opened.page.locator("table[data-table=line] tbody tr:visible").count() > 0


def test_a_page_is_printed_light_and_whole(open_page, page):
    opened = open_page(page("cpu_training").path, theme="dark")
    opened.page.emulate_media(media="print")
    background = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert opened.page.evaluate(background) == "rgb(255, 255, 255)"
    assert opened.page.locator("button:visible:not(thead button)").count() == 0
    rows = opened.page.locator("table[data-table=line] tbody tr")
    assert rows.count() == opened.page.locator("table[data-table=line] tbody tr:visible").count()
    printed = opened.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")


@pytest.mark.parametrize("name", ["hostile_names", "hostile_layers"])
def test_hostile_names_are_text(open_page, page, name):
    opened = open_page(page(name).path)  # fails if a dialog opens
    text = opened.page.evaluate("() => document.body.textContent")
    assert SCRIPT.replace(".", " ") in text
    assert "\u202e" not in text
    assert opened.page.locator("img").count() == 0
    scripts = opened.page.locator("script:not([type])")
    assert scripts.count() == 1
    assert "alert" not in scripts.inner_text()


def test_a_frame_without_an_origin_shows_the_page(open_page, page, tmp_path):
    """In a sandboxed frame, as notebooks and viewers of CI artifacts show pages."""
    framed = tmp_path / "framed.html"
    content = page("cpu_training").text.replace("&", "&amp;").replace('"', "&quot;")
    framed.write_text(
        '<!doctype html><html lang="en"><title>A frame</title><iframe title="page" width="1200" '
        f'height="800" sandbox="allow-scripts" srcdoc="{content}"></iframe></html>'
    )
    opened = open_page(framed)
    frame = opened.page.frames[1]
    frame.wait_for_selector(".scripted")
    frame.locator(".over-time svg:visible .columns > *").nth(50).dispatch_event(
        "click", {"bubbles": True}
    )
    frame.wait_for_selector(".point button")
    opened.page.evaluate("() => { window.isReached = false; }")
    reach = (
        "() => { try { parent.isReached = true; return ''; } catch (error) { return error.name; } }"
    )
    assert frame.evaluate(reach) == "SecurityError"
