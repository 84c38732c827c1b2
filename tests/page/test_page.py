"""Pages without a browser: well-formed, self-contained, small, and with the report's numbers."""

from __future__ import annotations

import subprocess

import pytest
from tests.page.contract import assert_self_contained, columns_of, parsed, rows_of
from tests.page.pages import MOST_BYTES, TABLES, held, json_report, make_page
from tests.page.recordings import CDATA, HOSTILE, IMAGE, QUICK, SCRIPT

# At most this many characters of a name are shown.
LONGEST_NAME = 300


@pytest.fixture(scope="module")
def page(plimsoll_command, recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {}

    def make(name):
        if name not in made:
            made[name] = make_page(plimsoll_command, recording(name), folder / f"{name}.html")
        return made[name]

    return make


@pytest.mark.parametrize("name", QUICK)
def test_a_page_is_well_formed_small_and_needs_nothing_else(page, name):
    made = page(name)
    assert len(made.text.encode()) < MOST_BYTES
    root = parsed(made.text)
    assert_self_contained(root)
    assert not any(root.all(id="report-json"))
    assert len(list(root.all(data_section="verdict"))) == 1
    ids = [each.attributes["id"] for each in root.all(id=None)]
    assert len(ids) == len(set(ids))
    targets = {each.attributes["href"][1:] for each in root.all("a", href=None)}
    assert targets <= set(ids)


@pytest.mark.parametrize("name", QUICK)
def test_the_verdict_is_the_reports(page, name):
    made = page(name)
    (verdict,) = parsed(made.text).all(data_section="verdict")
    (heading,) = verdict.all("h1")
    findings = made.report["findings"]
    if findings:
        assert heading.text() == findings[0]["title"]
        for finding in findings:
            assert finding["title"] in verdict.text()
            assert all(step["text"] in verdict.text() for step in finding["steps"])
            assert all(sentence in verdict.text() for sentence in finding["evidence"])
    else:
        assert "Nothing" in heading.text() or "no problems" in heading.text()


@pytest.mark.parametrize("name", QUICK)
def test_tables_and_chart_have_the_bytes_of_the_report(page, name):
    made = page(name)
    for article in parsed(made.text).all("article"):
        device = article.attributes["data-device"]
        columns = columns_of(article)
        if columns and made.point(device)["unexplained_bytes"] >= 0:
            assert max(columns) == held(made.device(device))["peak_bytes"]
        elif columns:  # contradictory events and blocks: the live set
            assert max(columns) == made.point(device)["live_bytes"]
        for table in TABLES:
            shown = rows_of(article, table)
            if not shown:
                continue
            assert sum(shown.values()) == made.point(device)["live_bytes"]
            expected = {key[:LONGEST_NAME]: size for key, size in made.rows(device, table).items()}
            known = {key: size for key, size in shown.items() if key[:LONGEST_NAME] in expected}
            assert known
            assert all(expected[key[:LONGEST_NAME]] == size for key, size in known.items())


def test_a_page_about_a_failure_opens_at_it(page, plimsoll_command, recording):
    made = page("fragmented")
    root = parsed(made.text)
    (article,) = root.all("article")
    at_oom = json_report(plimsoll_command, recording("fragmented")[0], "oom")
    (point,) = at_oom["tables"]["points_in_time"]
    (caption,) = (each for each in article.all("p") if each.has_class("point"))
    (shown,) = caption.all("b")
    assert int(shown.attributes["data-bytes"]) == point["live_bytes"]
    assert "when it ran out of memory" in caption.text()
    for table, name in TABLES.items():
        rows = rows_of(article, table)
        assert rows == {row["key"]: row["bytes"] for row in at_oom["tables"][name]} or not rows
    # The cross and the peak can be selected exactly: the chart has a mark for each.
    (wide,) = (each for each in article.all("svg") if each.has_class("wide") and any(each.all("g")))
    (marks,) = (each for each in wide.all("g") if each.has_class("marks"))
    sizes = [int(each.attributes["data-bytes"]) for each in marks.all("rect")]
    assert sizes == [point["live_bytes"], held(made.device("cuda:0"))["peak_bytes"]]


def test_a_page_shows_the_peak_if_the_user_asks_for_it(plimsoll_command, recording, tmp_path):
    path = tmp_path / "peak.html"
    words = [plimsoll_command, "report", str(recording("fragmented")[0])]
    subprocess.run([*words, "--at", "peak", "--html", str(path)], check=True)
    report = json_report(plimsoll_command, recording("fragmented")[0], "peak")
    lines = {row["key"]: row["bytes"] for row in report["tables"]["by_line"]}
    assert rows_of(parsed(path.read_text(encoding="utf-8")), "line") == lines


def test_blocks_that_pin_alone_and_lines_that_grow_are_listed(page):
    made = page("fragmented")
    root = parsed(made.text)
    (failure,) = made.device("cuda:0")["oom_details"]
    blocks = [
        (row.attributes["data-key"], int(row.attributes["data-bytes"]))
        for table in root.all("table", data_table="lone-blocks")
        for row in table.all("tr", data_key=None)
    ]
    assert blocks == [(each["line"], each["pinned_bytes"]) for each in failure["lone_blocks"]]
    assert len(blocks) == 10
    # The snapshot has no marks of steps.
    (growth,) = root.all("section", data_section="growth")
    growing = {row["line"]: row["grown_bytes"] for row in made.report["tables"]["growth"]}
    assert rows_of(growth, "growth") == growing
    (navigation,) = root.all("nav")
    assert "Growth" in navigation.text()


def test_lines_inside_packages_sum_to_their_line(page):
    made = page("packages")
    inside = {row["key"]: row["inside"] for row in made.report["tables"]["by_line"]}
    (parts,) = inside.values()
    assert parts[0]["line"] == "transformers/models/llama/modeling_llama.py:14 (forward)"
    assert parts[-1]["line"] == "[other: 5 groups]"  # in addition to the line itself
    (table,) = parsed(made.text).all("table", data_table="line")
    for row in table.all("tr", data_key=None):
        parts = {
            each.attributes["data-inner"]: int(each.attributes["data-size"])
            for each in row.all("li")
        }
        expected = inside[row.attributes["data-key"]]
        assert parts == {part["line"]: part["bytes"] for part in expected}
        assert not parts or sum(parts.values()) == int(row.attributes["data-bytes"])
    # Lines of torch alone would explain nothing.
    assert not any(parsed(page("fragmented").text).all("li", data_inner=None))


def test_hostile_names_are_text(page):
    made = page("hostile_names")
    root = parsed(made.text)
    (contents,) = (each for each in root.all("table", data_table="line"))
    for name in (SCRIPT, IMAGE, CDATA):
        assert name in contents.text()
    assert "\u202e" not in made.text
    assert "\x00" not in made.text
    assert not [each for each in root.all("img") if "onerror" in each.attributes]
    assert len(HOSTILE) + 2 == len(rows_of(root, "line"))  # and the invalid and the long one


def test_the_same_recording_makes_the_same_page(plimsoll_command, recording, page, tmp_path):
    again = make_page(plimsoll_command, recording("fragmented"), tmp_path / "again.html")
    assert again.text == page("fragmented").text
