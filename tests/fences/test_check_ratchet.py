"""check_ratchet.py counts correctly, and gives the right advice when a count changes."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_ratchet", ROOT / "tools/check_ratchet.py")
assert spec and spec.loader
check_ratchet = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_ratchet)

LONG_CC = (
    "namespace plimsoll {\n\nint f(int a,\n      int b) {\n"
    + "  a += b;\n" * 100
    + "  return a;\n}\n\n}\n"
)
LONG_PY = "def f():\n" + "    pass\n" * 101


@pytest.mark.parametrize(
    ("what", "file", "text"),
    [
        ("function too long", "src/base/a.cc", LONG_CC),
        ("function too long", "python/plimsoll/a.py", LONG_PY),
        ("TODO or FIXME", "src/base/a.cc", "// TODO: later\n"),
        ("NOLINT", "src/base/a.cc", "int a;  // NOLINT(x)\n"),
        ("type: ignore or noqa", "python/plimsoll/a.py", "import x  # type: ignore\n"),
        ("TypeScript any", "ui/src/a.ts", "const a: any = 1;\n"),
    ],
)
def test_each_undesired_pattern_is_counted(tmp_path: Path, what: str, file: str, text: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    found = check_ratchet.count(tmp_path)
    assert {name: len(places) for name, places in found.items() if places} == {what: 1}
    assert file in found[what][0]


def test_short_functions_and_data_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "src/base").mkdir(parents=True)
    (tmp_path / "src/base/a.cc").write_text("int f() {\n  return 1;\n}\n" * 200)
    (tmp_path / "tests/golden").mkdir(parents=True)
    (tmp_path / "tests/golden/a.py").write_text("# TODO\n")
    assert not any(check_ratchet.count(tmp_path).values())


def test_a_rise_lists_the_places_and_a_fall_asks_to_lower_the_constant() -> None:
    rise = check_ratchet.judge({"NOLINT": ["a.cc:1", "b.cc:2"]}, {"NOLINT": 1})
    assert len(rise) == 1
    assert "b.cc:2" in rise[0]
    fall = check_ratchet.judge({"NOLINT": []}, {"NOLINT": 1})
    assert len(fall) == 1
    assert "lower" in fall[0]
    assert check_ratchet.judge({"NOLINT": ["a.cc:1"]}, {"NOLINT": 1}) == []
