"""`plimsoll run` starts a program exactly as Python does: each program runs both ways."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from .run_programs import PROGRAMS, Program

SHOW_CALL = "import sys\nprint(sys.argv, __name__, sys.flags)"

# Variables that programs see in both runs; all others would differ between machines.
KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


def observed(command: list[str], program: Program, folder, python: str):
    """The status, stdout, and the lines of stderr that are not from plimsoll."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in program.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    folder.mkdir(exist_ok=True)
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PLIMSOLL_PYTHON": python, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [*command, *program.words],
        cwd=folder,
        env=environment | program.environment,
        input=program.stdin.encode(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    lines = ran.stderr.decode(errors="replace").splitlines(keepends=True)
    ours = [line for line in lines if line.startswith("plimsoll: ")]
    errors = "".join(each for each in lines if each not in ours)
    return ran.returncode, without_addresses(ran.stdout.decode()), without_addresses(errors), ours


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_observes_no_difference(name, plimsoll_command, tmp_path):
    python = sys.executable
    folder = tmp_path / "work"
    trace = tmp_path / "run.plim"
    run = [plimsoll_command, "run", "--adapter", "none", "-o", str(trace)]
    plain = observed([python], PROGRAMS[name], folder, python)
    with_us = observed(run, PROGRAMS[name], folder, python)
    assert with_us[:3] == plain[:3]
    assert plain[3] == []


def test_the_fake_torch_is_recorded(plimsoll_command, tmp_path):
    """Checks that a recording is made; otherwise the programs that import torch test nothing."""
    trace = tmp_path / "run.plim"
    run = [plimsoll_command, "run", "--adapter", "none", "-o", str(trace)]
    *_, ours = observed(run, PROGRAMS["torch"], tmp_path / "work", sys.executable)
    assert trace.is_file()
    assert "run.plim: the program ended before it allocated a tensor" in ours[-1]


@pytest.mark.slow
def test_the_environment_names_the_file_where_no_option_does(plimsoll_command, tmp_path):
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(10)\n")
    for words, name in (([], "mine.plim"), (["-o", "other.plim"], "other.plim")):
        subprocess.run(
            [plimsoll_command, "run", "--adapter", "python", *words, "train.py"],
            cwd=tmp_path,
            env=os.environ | {"PLIMSOLL_OUT": "mine.plim"},
            check=True,
        )
        assert (tmp_path / name).is_file()
    assert not list(tmp_path.glob("*.2.plim"))


@pytest.mark.parametrize("words", [["-X", "dev", "-W", "error"], ["-bb"], ["-O", "-u"]])
def test_options_of_the_interpreter_reach_the_script(words, tmp_path):
    program = Program(
        ("main.py",), {"main.py": "import sys, warnings\nprint(sys.flags, warnings.filters)"}
    )
    plain = observed([sys.executable, *words], program, tmp_path / "work", "")
    through = [sys.executable, *words, "-m", "plimsoll", "run"]
    with_us = observed(through, program, tmp_path / "work", "")
    assert with_us[:3] == plain[:3]


@pytest.mark.parametrize("dashes", [[], ["--"]])
@pytest.mark.parametrize("flags", [[], ["-u"], ["-X", "dev", "-O"]])
def test_python_may_be_named_before_the_script(plimsoll_command, dashes, flags, tmp_path):
    program = Program(("main.py", "--epochs", "3"), {"main.py": SHOW_CALL})
    plain = observed([sys.executable, *flags], program, tmp_path / "work", "")
    run = [plimsoll_command, "run", "--adapter", "none", *dashes, sys.executable, *flags]
    with_us = observed(run, program, tmp_path / "work", "")
    assert with_us[:3] == plain[:3]


def test_python_may_be_named_before_a_module(plimsoll_command, tmp_path):
    program = Program(("-um", "tool", "--epochs", "3"), {"tool.py": SHOW_CALL})
    plain = observed([sys.executable], program, tmp_path / "work", "")
    run = [plimsoll_command, "run", "--adapter", "none", sys.executable]
    assert observed(run, program, tmp_path / "work", "")[:3] == plain[:3]


def test_code_on_the_command_line_is_refused(plimsoll_command, tmp_path):
    program = Program(("-c", "print('ran')"), {})
    run = [plimsoll_command, "run", sys.executable]
    status, out, err, ours = observed(run, program, tmp_path / "work", "")
    assert (status, out) == (2, "")
    assert "into a file" in err + "".join(ours)


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_isolated_interpreters_are_refused_in_one_sentence(option, tmp_path):
    program = Program(("main.py",), {"main.py": "print('ran')"})
    command = [sys.executable, option, "-m", "plimsoll", "run"]
    status, out, err, _ = observed(command, program, tmp_path / "work", "")
    assert (status, out) != (0, "ran\n")
    assert "-E, -I or -S" in err or "No module named plimsoll" in err


def test_no_module_of_the_current_folder_is_imported_before_the_script(plimsoll_command, tmp_path):
    """The current folder has a trap for every module of the standard library and for plimsoll."""
    trap = "import os\nos.write(2, b'trapped\\n')\nos._exit(66)\n"
    names = [name for name in sys.stdlib_module_names if not name.startswith("_")] + ["plimsoll"]
    files = {f"{name}.py": trap for name in names} | {"sub/main.py": "print('ran')"}
    program = Program(("sub/main.py",), files)
    run = [plimsoll_command, "run", "--adapter", "none"]
    status, out, _, _ = observed(run, program, tmp_path / "work", sys.executable)
    assert (status, out) == (0, "ran\n")


def test_a_python_without_plimsoll_is_named(plimsoll_command, tmp_path):
    shutil.rmtree(tmp_path / "env", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = str(tmp_path / "env/bin/python3")
    program = Program(("main.py",), {"main.py": "print('ran')"})
    status, out, _, ours = observed([plimsoll_command, "run"], program, tmp_path / "work", python)
    assert (status, out) == (2, "")
    assert ours == [f"plimsoll: the package plimsoll is not installed for {python}\n"]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("lib/plimsoll.py", "lib/plimsoll.py hides the package plimsoll\n"),
        ("lib/plimsoll/__init__.py", "lib/plimsoll is of another project; remove it"),
    ],
)
def test_what_stands_in_place_of_the_package_is_named(file, problem, plimsoll_command, tmp_path):
    program = Program(("main.py",), {"main.py": "print('ran')", file: ""}, {"PYTHONPATH": "lib"})
    folder = tmp_path / "folder"
    status, out, errors, ours = observed([plimsoll_command, "run"], program, folder, sys.executable)
    assert (status, out, errors) == (2, "", "")
    assert len(ours) == 1
    assert ours[0].startswith(f"plimsoll: {folder}/{problem}")
