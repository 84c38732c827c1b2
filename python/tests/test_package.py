"""The installed package: what it contains and imports, and what it must not."""

import doctest
import importlib
import pathlib
import re
import subprocess
import sys

import pytest
from nanobind.stubgen import StubGen

import plimsoll
from plimsoll import _core, _record

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = [
    "plimsoll",
    "plimsoll.config",
    "plimsoll.errors",
    "plimsoll.memory_tracer",
    "plimsoll.recording",
    "plimsoll.trace",
]


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_version_is_that_of_the_header():
    header = ROOT / "include/plimsoll/version.h"
    assert f'PLIMSOLL_VERSION "{plimsoll.__version__}"' in header.read_text()


def test_a_star_import_leaves_the_builtin_names_alone():
    code = "import builtins; from plimsoll import *; print(*(set(dir(builtins)) & set(globals())))"
    left = set(run_python(code).split())
    assert left <= {"__name__", "__doc__", "__package__", "__loader__", "__spec__"}


def test_import_loads_no_heavy_module():
    loaded = run_python("import sys, plimsoll; print(*sys.modules)").split()
    assert "plimsoll._core" in loaded
    heavy = {
        "torch",
        "numpy",
        "pyarrow",
        "pandas",
        "polars",
        "duckdb",
        "asyncio",
        "subprocess",
        "yaml",
    }
    assert heavy.isdisjoint(loaded)


def test_the_command_is_next_to_python(generated):
    command = pathlib.Path(sys.executable).parent / "plimsoll"
    ran = subprocess.run([command, "report", generated["healthy"]], check=False)
    assert ran.returncode == 0


@pytest.mark.parametrize("module", [_core, _record])
def test_stub_is_what_nanobind_makes_of_the_module(module):
    name = module.__name__.split(".")[-1]
    stub = ROOT / f"python/plimsoll/{name}.pyi"
    generator = StubGen(module)
    generator.put(module)
    assert stub.read_text() == generator.get(), (
        f"renew it: python -m nanobind.stubgen -m plimsoll.{name} -o {stub.relative_to(ROOT)}"
    )


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name, generated):
    names = {"plimsoll": plimsoll, "path": generated["planted"], "pathlib": pathlib}
    names["trace"] = plimsoll.open(names["path"])
    for test in doctest.DocTestFinder().find(importlib.import_module(name), globs=names):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert runner.run(test).failed == 0, test.name


def test_examples_in_the_manual_give_the_printed_results(generated, monkeypatch):
    monkeypatch.chdir(generated["planted"].parent)
    pathlib.Path("snapshot.pickle").write_bytes(generated["planted"].read_bytes())
    manual = ROOT / "docs/python.md"
    text = re.sub(r"^```.*$", "", manual.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, manual.name, str(manual), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_manual_names_every_column(generated):
    manual = (ROOT / "docs/python.md").read_text()
    trace = plimsoll.open(generated["planted-2.11"])
    names = ("events", "lifetimes", "segments", "blocks", "stacks", "frames")
    for name in (*names, "sites", "tensors", "steps", "settings", "readings"):
        table = getattr(trace, name)
        row = next(line for line in manual.splitlines() if line.startswith(f"| `{table.name}` |"))
        named = re.findall(r"`(\w+)`", row.split("|")[3])
        assert set(table.columns) <= set(named)
        assert all(table.columns.values())
