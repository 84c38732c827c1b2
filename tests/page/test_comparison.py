"""The page that compares two recordings has the same numbers as `plimsoll diff`."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from tests.page.contract import Element, assert_self_contained, parsed


def cells(row: Element) -> list[int]:
    return [int(cell.attributes["data-value"]) for cell in row.all("td", data_value=None)]


@pytest.fixture(scope="module")
def files(recording):
    return [recording(name)[0] for name in ("packages", "fragmented")]


@pytest.fixture(scope="module")
def difference(plimsoll_command, files):
    before, after = files
    words = [plimsoll_command, "diff", str(before), str(after), "--json"]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


def page_against(command, before, after, path) -> Element:
    words = [command, "report", str(after), "--against", str(before), "--html", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return parsed(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(plimsoll_command, files, tmp_path_factory):
    return page_against(plimsoll_command, *files, tmp_path_factory.mktemp("page") / "diff.html")


def comparison(page: Element) -> Element:
    (section,) = page.all("section", data_section="comparison")
    return section


def test_the_page_is_self_contained_and_begins_with_the_largest_change(page, difference):
    assert_self_contained(page)
    ids = [each.attributes["id"] for each in page.all(id=None)]
    assert len(ids) == len(set(ids))
    first = next(iter(page.all("h1")))
    assert first.text() == difference["findings"][0]["title"]


def test_points_and_rows_match_the_diff(page, difference):
    (points,) = comparison(page).all("table", data_table="compared-points")
    assert [cells(row) for row in points.all("tr", data_key=None)] == [
        [point["before_bytes"], point["after_bytes"], point["difference_bytes"]]
        for point in difference["points"]
    ]
    (rows,) = comparison(page).all("table", data_table="differences")
    peak = difference["points"][0]
    shown = [cells(row) for row in rows.all("tr", data_key=None)]
    assert sum(row[-1] for row in shown) == peak["difference_bytes"]
    assert [row[-1] for row in shown if len(row) == 3] == [
        row["difference_bytes"] for row in peak["rows"][:200]
    ]
    sizes = [abs(row["difference_bytes"]) for row in peak["rows"]]
    assert sizes == sorted(sizes, reverse=True)


def test_both_charts_have_the_same_scale(page):
    charts = [svg for svg in comparison(page).all("svg") if svg.has_class("wide")]
    assert len(charts) == 2
    scales = [
        [each.text() for each in svg.all("text") if re.fullmatch(r"\d+ [KMG]iB", each.text())]
        for svg in charts
    ]
    assert scales[0] == scales[1] != []


def test_a_digest_has_no_chart(plimsoll_command, files, page, tmp_path):
    digest = tmp_path / "before.json"
    words = [plimsoll_command, "export", str(files[0]), "--to", "digest", "-o", str(digest)]
    subprocess.run(words, check=True, capture_output=True)
    made = comparison(page_against(plimsoll_command, digest, files[1], tmp_path / "diff.html"))
    assert not list(made.all("svg"))
    tables = [each.text() for each in made.all("table")]
    assert tables == [each.text() for each in comparison(page).all("table")]


def test_equal_recordings_have_no_difference(plimsoll_command, files, tmp_path):
    page = page_against(plimsoll_command, files[1], files[1], tmp_path / "diff.html")
    assert next(iter(page.all("h1"))).text() == "No difference above 0.1% at any point."
    assert not list(comparison(page).all("table", data_table="differences"))


def test_usage_errors_are_one_line(plimsoll_command, files, tmp_path):
    before, after = map(str, files)
    page, earlier = str(tmp_path / "x.html"), ["--against", before]
    for words, problem in (
        ([after, *earlier], "--against applies only with --html"),
        ([after, before, *earlier, "--html", page], "--against compares one FILE"),
        ([after, *earlier, "--html", before], "is the recording itself"),
        ([after, "--against", str(tmp_path / "none.plim"), "--html", page], "No such file"),
    ):
        done = subprocess.run(
            [plimsoll_command, "report", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode >= 2
        assert problem in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "x.html").exists()
