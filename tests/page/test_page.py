"""Pages without a browser: well-formed, self-contained, small, and with the report's numbers."""

from __future__ import annotations

import pytest
from tests.page.contract import assert_self_contained, columns_of, parsed, rows_of
from tests.page.pages import MOST_BYTES, TABLES, held, make_page
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
            assert finding["next_step"] in verdict.text()
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
        elif columns:  # events and blocks contradict each other: the live set
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
