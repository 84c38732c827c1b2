"""Dtypes and source lines of a C++ program's tensors."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import plimsoll

NO_LINE = 2**32 - 1
SOURCE = Path(__file__).parent / "libtorch/lines_program.cc"
LIBRARY = SOURCE.with_name("lines_library.cc")

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


def record(program: Path, path: Path, *words: str, by: tuple[str, ...] = ()) -> plimsoll.Trace:
    ran = subprocess.run([*by, program, path, *words], capture_output=True, text=True, check=False)
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


def line_of(mark: str, source: Path = SOURCE) -> int:
    """The number of the source's line that ends with this comment."""
    found = [n for n, text in enumerate(source.read_text().split("\n"), 1) if text.endswith(mark)]
    assert len(found) == 1
    return found[0]


def frame(mark: str, function: str, source: Path = SOURCE) -> tuple:
    return (source.name, line_of(f"// line: {mark}", source), function)


def test_an_allocation_has_the_lines_of_the_users_functions(recorded):
    main = {name: frame(f"calls {name}", "main") for name in ("zeros", "two", "module", "library")}
    expected = {
        (8004, "aten::zeros", (frame("zeros", "in_function"), main["zeros"])),
        (
            8008,
            "aten::relu",
            (
                frame("relu", "in_inlined_function"),
                frame("caller of relu", "two_on_the_way"),
                main["two"],
            ),
        ),
        (8008, "aten::sigmoid", (frame("sigmoid", "two_on_the_way"), main["two"])),
        (8008, "aten::sigmoid", (frame("sigmoid again", "two_on_the_way"), main["two"])),
        (140, "AddmmBackward0", (frame("linear", "in_module"), main["module"])),
        (8020, "aten::ones", (frame("library", "in_library", LIBRARY), main["library"])),
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
    names = {row["key"] for row in recorded.report["tables"]["by_line"]}
    for line, function, source in (
        (line_of("// line: zeros"), "in_function(long)", SOURCE),
        (line_of("// line: library", LIBRARY), "in_library(long)", LIBRARY),
    ):
        assert any(name.endswith(f"{source.name}:{line} ({function})") for name in names), names


def test_the_child_of_a_fork_has_lines_too(libtorch_programs, tmp_path):
    parent = record(libtorch_programs / "lines_program", tmp_path / "run.plim", "fork")
    (of_child,) = [path for path in tmp_path.iterdir() if path.name != "run.plim"]
    for trace in (parent, plimsoll.open(of_child)):
        found = {(size, stack) for size, _, stack in lines(trace)}
        for size, name, function, source in (
            (8004, "zeros", "in_function", SOURCE),
            (8008, "sigmoid again", "two_on_the_way", SOURCE),
            (8020, "library", "in_library", LIBRARY),
        ):
            innermost = {stack[0] for of_size, stack in found if of_size == size}
            assert frame(name, function, source) in innermost


def test_a_program_that_was_deleted_has_its_lines(libtorch_programs, tmp_path):
    program = tmp_path / "program"
    shutil.copy(libtorch_programs / "lines_program", program)
    found = lines(record(program, tmp_path / "run.plim", "delete"))
    (zeros,) = [stack for size, _, stack in found if size == 8004]
    assert zeros[0] == frame("zeros", "in_function")


def test_a_program_that_the_loader_starts_has_lines(libtorch_programs, tmp_path):
    program = libtorch_programs / "lines_program"
    headers = subprocess.run(["readelf", "-l", program], capture_output=True, text=True, check=True)
    (loader,) = re.findall(r"interpreter: (.*)\]", headers.stdout)
    found = lines(record(program, tmp_path / "run.plim", by=(loader,)))
    (zeros,) = [stack for size, _, stack in found if size == 8004]
    assert zeros == (frame("zeros", "in_function"), frame("calls zeros", "main"))


def test_a_plugin_where_another_was_has_its_own_lines(libtorch_programs, tmp_path):
    plugins = [libtorch_programs / f"liblines_plugin_{name}.so" for name in ("first", "second")]
    found = lines(
        record(libtorch_programs / "lines_program", tmp_path / "run.plim", "plugins", *plugins * 2)
    )
    functions = {stack[0] for size, _, stack in found if size == 8024}
    assert functions == {
        (f"liblines_plugin_{name}.so", None, f"in_{name}_plugin") for name in ("first", "second")
    }


def test_a_program_that_may_start_no_process_runs_to_its_end(libtorch_programs, tmp_path):
    found = lines(record(libtorch_programs / "lines_program", tmp_path / "run.plim", "sandbox"))
    (zeros,) = [stack for size, _, stack in found if size == 8004]
    assert {file for file, _, _ in zeros} == {"lines_program"}
    assert all(name.startswith("+0x") for _, _, name in zeros)


def offsets_of(function: str, program: Path) -> range:
    """Where the code of this function is, in an executable that is not stripped."""
    named = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True)
    ((begin, size, *_),) = [
        line.split() for line in named.stdout.splitlines() if f"{len(function)}{function}" in line
    ]
    return range(int(begin, 16), int(begin, 16) + int(size, 16))


@pytest.mark.parametrize("word", ["", "delete"])
def test_without_debug_information_functions_are_named(word, libtorch_programs, tmp_path):
    program = tmp_path / "program"
    shutil.copy(libtorch_programs / "lines_program_without_lines", program)
    found = lines(record(program, tmp_path / "run.plim", word))
    (zeros,) = [stack for size, _, stack in found if size == 8004]
    assert zeros == ((program.name, None, "in_function"), (program.name, None, "main"))


def test_a_stripped_program_has_offsets(libtorch_programs, tmp_path):
    program, whole = tmp_path / "program", libtorch_programs / "lines_program_without_lines"
    shutil.copy(whole, program)
    subprocess.run(["strip", program], check=True)
    found = lines(record(program, tmp_path / "run.plim"))
    (zeros,) = [stack for size, _, stack in found if size == 8004]
    # Inside torch::zeros(), an inline function of torch, which has no name either.
    file, line, offset = zeros[1]
    assert (file, line) == ("program", None)
    assert int(offset, 16) in offsets_of("in_function", whole)
