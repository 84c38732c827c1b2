"""The line to which an allocation is attributed, from the recorded stack to the report."""

import os
import subprocess
import sys

import pytest

NOTEBOOK = """
import sys, types
compiler = types.SimpleNamespace(_filename_map={"/tmp/ipykernel_1/2.py": 7})
shell = types.SimpleNamespace(compile=compiler)
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell

import torch, plimsoll
kept = []
cell = compile("\\nkept.append(torch.zeros(1 << 20))", "/tmp/ipykernel_1/2.py", "exec")
other = compile("kept.append(torch.zeros(1 << 20))", "/tmp/ipykernel_1/3.py", "exec")
with plimsoll.record("run.plim", adapter=sys.argv[1]):
    exec(cell)
    exec(other)
"""

PACKAGE = """
import copy, sys
import torch, plimsoll
import helper
with plimsoll.record("run.plim", adapter=sys.argv[1]):
    kept = helper.make()
    copied = copy.deepcopy(kept)
"""


def lines_of(script, tmp_path, adapter):
    (tmp_path / "program.py").write_text(script)
    ran = subprocess.run(
        [sys.executable, "program.py", adapter],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site-packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    import plimsoll

    return [row["key"] for row in plimsoll.open(tmp_path / "run.plim").tables["by_line"]]


@pytest.mark.parametrize("adapter", ["libtorch", "python"])
@pytest.mark.slow
def test_a_cell_has_its_number_and_any_other_file_its_name(tmp_path, adapter):
    lines = lines_of(NOTEBOOK, tmp_path, adapter)
    assert sorted(lines) == ["/tmp/ipykernel_1/3.py:1 (<module>)", "In[7]:2 (<module>)"]


@pytest.mark.parametrize("adapter", ["libtorch", "python"])
@pytest.mark.slow
def test_what_packages_and_the_standard_library_allocate_is_charged_to_the_line_that_calls(
    tmp_path, adapter
):
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "helper.py").write_text(
        "import torch\ndef make():\n    return torch.zeros(1 << 20)\n"
    )
    lines = lines_of(PACKAGE, tmp_path, adapter)
    assert [line.partition("program.py:")[2] for line in sorted(lines)] == [
        "6 (<module>)",
        "7 (<module>)",
    ]
