"""The parts of tests/gpu/run that need no GPU: its message without a GPU, and its counts."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(HERE))  # the folder in which a script finds the others
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table():
    return loaded("table")


def test_without_a_gpu_one_sentence_is_printed():
    ran = subprocess.run(
        [str(HERE / "run")],
        env=os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 3
    assert len(ran.stdout.splitlines()) == 1
    assert "nothing was checked" in ran.stdout


def test_each_case_has_its_function(table):
    cases = loaded("cases")
    known = {*cases.CASES, "overhead"}
    assert {each.function for each in table.all_cases()} == known
    assert {each.words[0] for each in table.all_cases() if each.function == "example"} == {
        *cases.ARGUMENTS
    }
    for name in cases.ARGUMENTS:
        assert (cases.ROOT / "examples" / f"{name}.py").is_file()


@pytest.mark.slow
def test_a_trace_is_read_without_the_engine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    driver = loaded("driver")
    records = json.loads((driver.ROOT / "tests/compat/v2.json").read_text())["records"]
    allocations, left = driver.allocations_of(
        driver.dumped(driver.ROOT / "tests/compat/v2.plimsoll")
    )
    assert sum(allocations.values()) == records["alloc"]
    assert left == records["alloc"] - records["free"]
    assert {key.split(" ")[0] for key in allocations} == {"cpu", "cuda"}


def test_a_case_gets_its_settings_and_no_others(table, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "mine")
    by_name = {each.name: each for each in table.all_cases()}
    reported = table.environment_of(by_name["graphs, expandable"])
    assert reported["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in table.environment_of(by_name["graphs, default"])
    assert table.environment_of(by_name["without a compiler"])["CXX"] == "/nonexistent"


def test_lines_of_a_case_become_checks(table):
    text = 'loss 0.3\n{"check": "sums", "holds": true, "found": "9 times"}\n{"other": 1}\n'
    assert table.checks_of("one", text) == [table.Check("one", "sums", True, "9 times")]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import sys; sys.exit('no memory')", "status 1: no memory"),
        ("pass", "status 0: no word"),  # it checked nothing
        ('print(\'{"check": "a", "holds": true, "found": ""}\'); exit(3)', "status 3: no word"),
    ],
)
def test_a_case_that_comes_to_no_good_end_fails(table, tmp_path, monkeypatch, program, found):
    (tmp_path / "cases.py").write_text(program)
    monkeypatch.setattr(table, "HERE", tmp_path)
    checks = table.run(table.Case("one", "function"), tmp_path)
    assert checks[-1] == table.Check("one", "ends", False, found)


def test_the_table_names_what_fails(table):
    checks = [table.Check("one", "sums", True, "9 times"), table.Check("other", "end", False, "")]
    assert table.lines_of(checks) == ["holds  one    sums  9 times", "FAILS  other  end"]


def test_unknown_cases_are_named(table, tmp_path, capsys):
    assert table.main([str(tmp_path), "magic"]) == 2
    assert "planted oom" in capsys.readouterr().out


def test_sums_that_differ_are_reported(monkeypatch):
    cases = loaded("cases")

    class Share:
        size_bytes = 40

    class Row:
        name = "cuda:0"
        live_bytes = 100
        categories = (Share(), Share())

    class Sample:
        devices = (Row(),)

    state = {"allocated_bytes": 100, "reserved_bytes": 200}
    monkeypatch.setattr(cases._record, "take_sample", Sample)
    monkeypatch.setattr(cases.cuda_hooks, "state", lambda: [state])
    monkeypatch.setattr(cases.torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(cases.torch.cuda, "memory_reserved", lambda device: 200)
    sums = cases.Sums()
    sums.compare()
    assert sums.compared == 1
    assert sums.wrong == ["categories of cuda:0: 80 for 100"]


def test_the_interval_contains_the_median():
    middle, low, high = loaded("overhead").interval([1.0, 2.0, 3.0, 4.0, 50.0])
    assert low <= middle == 3.0 <= high
