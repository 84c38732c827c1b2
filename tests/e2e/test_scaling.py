"""Time and memory are linear in the size of the input: small cases of bench/scaling.py."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
scaling = importlib.import_module("scaling")

SIZES = [25_000, 100_000]


def is_quick(small, large):
    """For four times the input, linear code takes 4 times as long, quadratic code 16 times."""
    return large < 9 * small + 0.5


# A stub of the command: loop steps for each entry of the input.
COMMAND = """#!{python}
import sys
size = int(open(sys.argv[-1]).read())
for _ in range({steps}): pass
"""


@pytest.mark.parametrize(
    ("steps", "is_linear"), [("100 * size", True), ("size * size // 25", False)]
)
def test_a_command_that_is_quadratic_fails_the_check(steps, is_linear, monkeypatch, tmp_path):
    command = tmp_path / "command"
    command.write_text(COMMAND.format(python=sys.executable, steps=steps))
    command.chmod(0o755)
    write = (scaling.REPORT, lambda path, size: path.write_text(str(size)))
    monkeypatch.setitem(scaling.CASES, "made", write)
    times = scaling.measured("made", SIZES, str(command))
    assert is_quick(*times) == is_linear, times


def test_the_slope_of_a_power_is_its_exponent():
    sizes = [1000, 2000, 4000, 8000]
    for exponent in (1, 1.5, 2):
        times = [(size / 1000) ** exponent for size in sizes]
        assert scaling.slope(sizes, times) == pytest.approx(exponent)
    assert scaling.slope(sizes, [0.01] * 4) == 0  # times too short to measure


@pytest.mark.parametrize("name", scaling.CASES)
def test_four_times_the_input_costs_far_less_than_sixteen_times(name, plimsoll_command):
    if name.startswith(("recording", "text log")):
        pytest.importorskip("plimsoll._record")
    small, large = scaling.measured(name, SIZES, str(plimsoll_command))
    if not is_quick(small, large):  # another process may have slowed down one of the two
        again = scaling.measured(name, SIZES, str(plimsoll_command))
        small, large = min(small, again[0]), min(large, again[1])
    assert is_quick(small, large), (small, large)
