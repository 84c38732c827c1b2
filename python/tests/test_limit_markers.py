"""The arguments of the markers limit_memory, limit_leaks, limit_growth and limit_unused_at_peak."""

import re
from pathlib import Path

import pytest

from plimsoll._testing import files
from plimsoll._testing.limits import (
    CATEGORIES,
    PHASES,
    GrowthLimit,
    LeakLimit,
    LimitError,
    MemoryLimit,
    UnusedLimit,
    limits_of,
    size_of,
)

ROOT = Path(__file__).resolve().parents[2]


class Item:
    """Stub of a pytest item with markers."""

    nodeid = "tests/test_a.py::test_step"

    def __init__(self, *marks: pytest.MarkDecorator):
        self.marks = [each.mark for each in marks]

    def iter_markers(self):
        return iter(self.marks)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0 B", 0),
        ("7B", 7),
        ("1 KB", 1024),
        ("48 MB", 48 * 1_048_576),
        ("48 MiB", 48 * 1_048_576),
        ("48 mib", 48 * 1_048_576),
        ("1.5 GB", 1_610_612_736),
        ("  .5 KiB ", 512),
        ("0.1 KB", 102),  # 102.4
        ("3 TiB", 3 * 1024**4),
        ("48 mb", 48 * 1_048_576),
    ],
)
def test_sizes_are_parsed(text, size_bytes):
    assert size_of(text) == size_bytes


def test_a_size_of_8_eib_is_too_large():
    assert size_of("8388606 TiB") == 8388606 << 40
    with pytest.raises(ValueError, match="is too large: write less than 8 EiB"):
        size_of("8388608 TB")


@pytest.mark.parametrize(
    "text",
    ["", "48", "MB", "48 megs", "-1 B", "1e3 B", "1 MB or so", "9e9 TB", 48, None],
)
def test_invalid_sizes_are_rejected(text):
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a size")):
        size_of(text)


def test_marker_arguments_become_limits():
    def wanted(site):
        return True

    item = Item(
        pytest.mark.limit_memory("1 KB", device="cuda", category="gradient"),
        pytest.mark.plimsoll_limit_leaks("2 B", warmup=2, filter_fn=wanted),
        pytest.mark.limit_growth("3 B"),
        pytest.mark.plimsoll_limit_unused_at_peak("4 MiB"),
    )
    memory, leaks, growth, unused = limits_of(item)
    assert isinstance(memory, MemoryLimit)
    assert (memory.limit_bytes, memory.by, memory.device) == (1024, "allocated", "cuda")
    assert (memory.phase, memory.category) == (None, "gradient")
    assert memory.shown == 'limit_memory("1 KB", device="cuda", category="gradient")'
    assert isinstance(leaks, LeakLimit)
    assert (leaks.limit_bytes, leaks.warmup, leaks.filter_fn) == (2, 2, wanted)
    assert leaks.shown == 'plimsoll_limit_leaks("2 B", warmup=2, filter_fn=wanted)'
    assert isinstance(growth, GrowthLimit)
    assert (growth.limit_bytes, growth.steps) == (3, 16)
    assert isinstance(unused, UnusedLimit)
    assert unused.limit_bytes == 4 << 20
    assert unused.shown == 'plimsoll_limit_unused_at_peak("4 MiB")'


def test_the_closer_of_two_markers_for_the_same_memory_applies():
    item = Item(
        pytest.mark.limit_memory("1 B"),
        pytest.mark.limit_memory("2 B", category="gradient"),
        pytest.mark.plimsoll_limit_memory("3 B"),
    )
    assert [each.limit_bytes for each in limits_of(item)] == [1, 2]


def test_a_marker_with_current_thread_only_is_left_to_pytest_memray():
    mark = pytest.mark.limit_memory("1 MB", current_thread_only=True)
    assert limits_of(Item(mark)) == []
    prefixed = pytest.mark.plimsoll_limit_memory("1 MB", current_thread_only=True)
    with pytest.raises(LimitError, match="write limit_memory"):
        limits_of(Item(prefixed))


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        (pytest.mark.limit_memory("48 megs"), r"write a number and a unit.*\"48 MB\""),
        (pytest.mark.limit_memory(48), "the limit 48 is not a size"),
        (pytest.mark.limit_memory(), r'write limit_memory\("48 MB", by=, device='),
        (pytest.mark.limit_memory("1 B", "2 B"), r'write limit_memory\("48 MB", by=, device='),
        (pytest.mark.limit_memory("1 B", size=2), r'write limit_memory\("48 MB", by=, device='),
        (
            pytest.mark.limit_memory("1 B", by="rss"),
            "by 'rss' is not one of allocated, reserved",
        ),
        (pytest.mark.limit_memory("1 B", phase="fwd"), "phase 'fwd' is not one of forward"),
        (
            pytest.mark.limit_memory("1 B", category="grad"),
            "category 'grad' is not one of param",
        ),
        (pytest.mark.limit_memory("1 B", by="reserved", phase="data"), "has no phase"),
        (pytest.mark.limit_memory("1 B", device="gpu"), "no device 'gpu': write 'cpu', 'cuda'"),
        (
            pytest.mark.limit_leaks("0 B", warmup=-1),
            "warmup is -1: write a whole number, 0 or more",
        ),
        (pytest.mark.limit_leaks("0 B", warmup=True), "warmup is True"),
        (pytest.mark.limit_leaks("0 B", filter_fn="x"), "filter_fn is 'x': pass a function"),
        (
            pytest.mark.limit_growth("0 B", steps=11),
            "steps is 11: write a whole number, 12 or more",
        ),
        (pytest.mark.limit_growth(limit="x"), "the limit 'x' is not a size"),
        (pytest.mark.limit_unused_at_peak("4 megs"), "the limit '4 megs' is not a size"),
        (
            pytest.mark.limit_unused_at_peak("4 MB", device="cpu"),
            r'write limit_unused_at_peak\("48 MB"\)',
        ),
    ],
)
def test_the_error_of_an_invalid_argument_names_test_and_marker(mark, problem):
    with pytest.raises(LimitError, match=problem) as caught:
        limits_of(Item(mark))
    assert str(caught.value).startswith(f"tests/test_a.py::test_step: {mark.name}(")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("device", "covered"),
    [(None, ["cpu", "cuda:0", "cuda:1"]), ("cuda", ["cuda:0", "cuda:1"]), ("cuda:1", ["cuda:1"])],
)
def test_a_device_without_an_index_covers_all_devices_of_its_type(device, covered):
    (limit,) = limits_of(Item(pytest.mark.limit_memory("1 B", device=device)))
    assert [each for each in ("cpu", "cuda:0", "cuda:1") if limit.applies_to(each)] == covered


def test_phases_and_categories_match_those_of_the_engine():
    header = (ROOT / "src/base/categories.h").read_text(encoding="utf-8")
    names = header[header.index("kCategoryNames = {") :].partition("};")[0]
    assert tuple(re.findall(r'"(\w+)"', names)) == CATEGORIES
    vocabulary = (ROOT / "docs/attribution.md").read_text(encoding="utf-8")
    assert all(f"`{phase}`" in vocabulary for phase in PHASES)


@pytest.mark.parametrize(
    ("test_id", "name"),
    [
        ("tests/test_a.py::test_x", "tests/test_a.py/test_x.json"),
        ("test_a.py::TestB::test_x[1-a=2]", "test_a.py/TestB.test_x[1-a=2].json"),
        ("../test_a.py::test_x", "test_a.py/test_x-78e0574fd520.json"),
    ],
)
def test_a_baseline_is_named_after_its_test(test_id, name):
    assert files.baseline_path(Path("/root"), test_id) == Path("/root/.plimsoll") / name


def test_tests_have_distinct_file_names():
    parameters = ("a/b", "a b", "a:b", "a::b", "a.b", "a_b", "x" * 300, "x" * 299, "..")
    tests = [f"test_x[{parameter}]" for parameter in parameters]
    tests += ["a.b", "a::b", "a.b::c", "a::b.c", "a::b::c", "a.b[c]", "a::b[c]"]
    names = {files.baseline_path(Path("/root"), f"test_a.py::{test}").name for test in tests}
    assert len(names) == len(tests)
    assert all(len(name.encode()) < 200 and "/" not in name for name in names)
