"""Dtypes and source lines of a C++ program's tensors."""

import shutil
import subprocess
from pathlib import Path

import pytest

import plimsoll

NO_LINE = 2**32 - 1
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


def lines(trace: plimsoll.Trace) -> set[tuple]:
    """The size, operator and frames of each allocation; a frame is a file, line and function."""
    events, stacks = trace.events.to_pydict(), trace.stacks.to_pydict()
    frames = trace.frames.to_pydict()
    columns = (frames["file"], frames["line"], frames["function"])
    rows = [
        (Path(file).name, line if line < NO_LINE else None, name.split("(")[0])
        for file, line, name in zip(*columns, strict=True)
    ]
    found = set()
    for i, action in enumerate(events["action"]):
        stack = events["stack"][i]
        if action == "alloc" and stack is not None and events["size_bytes"][i] > 100:
            of_stack = tuple(rows[frame] for frame in stacks["frames"][stack] or ())
            found.add((events["size_bytes"][i], events["operator"][i], of_stack))
    return found


def line_of(mark: str) -> int:
    """The number of the program's line that ends with this comment."""
    found = [n for n, text in enumerate(SOURCE.read_text().split("\n"), 1) if text.endswith(mark)]
    assert len(found) == 1
    return found[0]


def frame(mark: str, function: str) -> tuple:
    return (SOURCE.name, line_of(f"// line: {mark}"), function)


def test_an_allocation_has_the_lines_of_the_users_functions(recorded):
    main = {
        name: frame(name, "main") for name in ("calls zeros", "calls two", "lambda", "calls module")
    }
    expected = {
        (8004, "aten::zeros", (frame("zeros", "in_function"), main["calls zeros"])),
        (
            8008,
            "aten::relu",
            (
                frame("relu", "in_inlined_function"),
                frame("caller of relu", "two_on_the_way"),
                main["calls two"],
            ),
        ),
        (8008, "aten::sigmoid", (frame("sigmoid", "two_on_the_way"), main["calls two"])),
        (8008, "aten::sigmoid", (frame("sigmoid again", "two_on_the_way"), main["calls two"])),
        (140, "AddmmBackward0", (frame("linear", "in_module"), main["calls module"])),
    }
    found = lines(recorded)
    assert expected <= found
    assert not any(stack == () for _, _, stack in found)
    (by_lambda,) = [stack for size, op, stack in found if (size, op) == (8012, "aten::ones")]
    assert [line for _, line, _ in by_lambda] == [
        line_of("// line: lambda"),
        line_of("// line: template"),
        line_of("// line: lambda"),
    ]


def test_the_report_names_the_innermost_line(recorded):
    names = {row["line"] for row in recorded.report["tables"]["by_line"]}
    assert any(
        name.endswith(f"{SOURCE.name}:{line_of('// line: zeros')} (in_function)") for name in names
    )


@pytest.mark.parametrize("is_stripped", [False, True])
def test_without_debug_information_functions_or_offsets_are_named(
    libtorch_programs, tmp_path, is_stripped
):
    program = tmp_path / "program"
    shutil.copy(libtorch_programs / "lines_program_without_lines", program)
    if is_stripped:
        subprocess.run(["strip", program], check=True)
    found = lines(record(program, tmp_path / "run.plim"))
    (zeros,) = [stack for size, _, stack in found if size == 8004]
    assert {(file, line) for file, line, _ in zeros} == {("program", None)}
    names = [name for _, _, name in zeros]
    assert names == ["in_function", "main"] if not is_stripped else names[0].startswith("+0x")
