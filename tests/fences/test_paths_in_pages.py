"""Files, pages and sections that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/readers").glob("*.md")),
]
# A path of this repository begins with one of these, or with a module of src/.
TOPS = {"src", "adapters", "include", "python", "tests", "tools", "bench", "cmake", "scripts"}
MODULES = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
# Examples and placeholders in the documentation.
NO_FILES = re.compile(r"NAME|/pprof/")
A_PATH = re.compile(r"(?<![\w./<{*-])((?:[\w.-]+/)+[\w.-]+\.(?:cc|h|py|def|cmake))\b")


def is_missing(path: str) -> bool:
    if NO_FILES.search(path):
        return False
    top = path.split("/")[0]
    if top in TOPS:
        return not (ROOT / path).exists()
    return top in MODULES and not (ROOT / "src" / path).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_a_page_exist(page):
    paths = set(A_PATH.findall(page.read_text(encoding="utf-8")))
    assert sorted(filter(is_missing, paths)) == []


LINKING = [ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md")]
LINKING += [*PAGES, *sorted((ROOT / "docs/decisions").glob("*.md"))]
A_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
A_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def sections(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", A_FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def is_broken(page: Path, file: str, section: str) -> bool:
    target = (page.parent / file).resolve() if file else page
    return not target.exists() or (bool(section) and section not in sections(target))


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_linked_pages_and_sections_exist(page):
    links = A_LINK.findall(A_FENCE.sub("", page.read_text()))
    assert [each for each in links if is_broken(page, *each)] == []


def test_a_broken_link_is_found():
    assert is_broken(ROOT / "README.md", "docs/no_such_page.md", "")
    assert is_broken(ROOT / "README.md", "docs/recording.md", "no-such-section")
    assert not is_broken(ROOT / "README.md", "docs/recording.md", "the-file")


def test_a_missing_file_is_found():
    assert is_missing("src/model/no_such_file.h")
    assert is_missing("monitor/live_status.h")
    assert not is_missing("model/trace.h")
    assert not is_missing("my_project/train.py")
