"""Dtypes and source lines of a C++ program's tensors."""

import subprocess
from pathlib import Path

import pytest

import plimsoll

SOURCE = Path(__file__).parent / "libtorch/lines_program.cc"

# By size in bytes: the results of torch's factory functions, and of operators on them.
DTYPES = {
    2002: ("float16", "[1001]"),
    8016: ("float64", "[1002]"),
    4012: ("int32", "[1003]"),
    4016: ("float32", "[1004]"),
    8040: ("int64", "[1005]"),
    4024: ("float32", "[1006]"),
    8056: ("float64", "[1007]"),
    8064: ("int64", "[1008]"),
    8072: ("int64", "[1009]"),
    4040: ("float32", "[1010]"),
    4044: ("float32", "[1011]"),
    4096: ("float32", "[32, 32]"),
    4004: ("float16", "[2002]"),
    4050: ("bfloat16", "[1013]"),
    4056: ("int32", "[1014]"),
    8120: ("int64", "[1015]"),
    4064: ("float32", "[1016]"),
    2032: ("float16", "[1016]"),
    2034: ("float16", "[1017]"),
    1018: ("bool", "[1018]"),
    4076: ("float32", "[1019]"),
    8152: ("complex64", "[1019]"),
}


def record(program: Path, path: Path) -> plimsoll.Trace:
    ran = subprocess.run([program, path], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return plimsoll.open(path)


@pytest.fixture(scope="module")
def recorded(libtorch_programs, tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "run.plim"
    return record(libtorch_programs / "lines_program", path)


def test_factory_functions_and_operators_return_tensors_with_a_dtype(recorded):
    events = recorded.events.to_pydict()
    rows = zip(
        events["action"], events["size_bytes"], events["dtype"], events["shape"], strict=True
    )
    found: dict = {}
    for action, size, dtype, shape in rows:
        if action == "alloc" and size in DTYPES:
            found.setdefault(size, set()).add((dtype, shape))
    assert found == {size: {tensor} for size, tensor in DTYPES.items()}


def test_what_operators_return_has_a_dtype(recorded):
    events = recorded.events.to_pydict()
    rows = zip(events["action"], events["category"], events["dtype"], strict=True)
    lasting = [dtype for action, kind, dtype in rows if action == "alloc" and kind != "temporary"]
    assert len(lasting) > 60
    assert None not in lasting
