"""No input costs more than its size: small sizes of the cases of bench/scaling.py."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "bench/scaling.py"
spec = importlib.util.spec_from_file_location("scaling", SOURCE)
scaling = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scaling)

SIZES = [25_000, 100_000]


@pytest.mark.parametrize("name", scaling.CASES)
def test_four_times_the_input_costs_far_less_than_sixteen_times(name, plimsoll_command):
    if name.startswith(("recording", "text log")):
        pytest.importorskip("plimsoll._record")
    small, large = scaling.measured(name, SIZES, str(plimsoll_command))
    if large >= 9 * small + 0.5:  # the host may have slowed one of the two down
        again = scaling.measured(name, SIZES, str(plimsoll_command))
        small, large = min(small, again[0]), min(large, again[1])
    assert large < 9 * small + 0.5, (small, large)
