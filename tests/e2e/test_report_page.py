"""plimsoll report --html: which files it writes, also for several recordings."""

import shutil

import pytest
from tests.e2e.running import complains


@pytest.fixture
def mine(planted, tmp_path):
    """A copy that a test may overwrite."""
    path = tmp_path / "mine.pickle"
    shutil.copy(planted, path)
    return path


def test_no_recording_is_replaced_by_its_page(plimsoll, planted, mine, tmp_path):
    before = mine.read_bytes()
    link = tmp_path / "link.html"
    link.symlink_to(mine)
    for words in ((mine, "--html", mine), (mine, "--html", link), (planted, mine, "--html", mine)):
        complains(plimsoll("report", *words, "--force"), 2, "is the recording itself", "--html")
        assert mine.read_bytes() == before


def test_no_recording_is_replaced_by_its_plot(plimsoll, planted, tmp_path):
    mine = tmp_path / "mine.svg"  # the content decides what is a recording
    shutil.copy(planted, mine)
    before = mine.read_bytes()
    complains(plimsoll("plot", mine, "-o", mine, "--force"), 2, "is the recording itself")
    assert mine.read_bytes() == before


def test_an_existing_page_is_kept_without_force(plimsoll, planted, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    complains(plimsoll("report", planted, "--html", page), 2, "--force", "--html")
    assert page.read_text() == "mine"
    assert plimsoll("report", planted, "--html", page, "--force").status == 0
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("option", [("--json",), ("--full",), ("--by", "line")])
def test_options_of_the_text_are_refused(plimsoll, planted, tmp_path, option):
    words = ("report", planted, "--html", tmp_path / "x.html", *option)
    complains(plimsoll(*words), 2, "--html", option[0])
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_several_has_the_findings_of_all_and_what_was_not_read(
    plimsoll, planted, mine, tmp_path
):
    page = tmp_path / "page.html"
    outcome = plimsoll("report", planted, mine, tmp_path / "missing.pickle", "--html", page)
    assert outcome.status == 3
    text = page.read_text()
    assert "Not read" in text
    assert "missing.pickle" in text
    assert "mine.pickle" in text
    assert "2 recordings" in text
