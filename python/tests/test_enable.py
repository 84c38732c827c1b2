"""plimsoll enable: PLIMSOLL=1 records programs that do not import plimsoll."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import plimsoll

PACKAGE = Path(plimsoll.__file__).parent
ENABLE = PACKAGE / "_command/enable.py"


@pytest.fixture
def environment(tmp_path):
    """A virtual environment that sees the packages of this one, including plimsoll and torch."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "packages.pth").write_text(f"{PACKAGE.parent}\n")
    return folder / "bin" / "python", site


def run(python, *words, cwd=None, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PLIMSOLL")}
    return subprocess.run(
        [python, *words],
        cwd=cwd,
        env=env | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def enabled(environment, word="enable"):
    python, site = environment
    ran = run(python, ENABLE, word)
    assert ran.returncode == 0, ran.stderr
    return python, site / "plimsoll-enable.pth", ran.stdout


def test_a_script_that_does_not_import_plimsoll_is_recorded(environment, tmp_path):
    python, file, said = enabled(environment)
    assert str(file) in said
    script = tmp_path / "train.py"
    script.write_text("import torch\nkept = torch.ones(1000)\n")
    out = tmp_path / "run.plim"
    ran = run(python, script, PLIMSOLL="1", PLIMSOLL_OUT=str(out), PLIMSOLL_ADAPTER="python")
    assert ran.returncode == 0, ran.stderr
    trace = plimsoll.open(out)
    assert trace.report["devices"][0]["requested_active"]["peak_bytes"] >= 4000


@pytest.mark.slow
def test_a_program_that_first_asks_whether_torch_is_there_is_recorded(environment, tmp_path):
    python, *_ = enabled(environment)
    code = "from importlib.util import find_spec; find_spec('torch'); import torch; torch.ones(9)"
    out = tmp_path / "run.plim"
    ran = run(python, "-c", code, PLIMSOLL="1", PLIMSOLL_OUT=str(out), PLIMSOLL_ADAPTER="python")
    assert ran.returncode == 0, ran.stderr
    assert plimsoll.open(out).report["source"]["events"] > 0


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_variable_nothing_is_loaded(environment, value):
    python, *_ = enabled(environment)
    code = "import sys; print([name for name in sys.modules if 'plimsoll' in name], sys.meta_path)"
    variables = {} if value is None else {"PLIMSOLL": value}
    ran = run(python, "-c", code, **variables)
    assert ran.stdout.startswith("[] ")
    assert "Torch" not in ran.stdout
    assert ran.stderr == ""


def test_a_program_without_torch_loads_and_prints_nothing(environment):
    python, *_ = enabled(environment)
    code = "import sys; print([name for name in sys.modules if 'plimsoll' in name])"
    ran = run(python, "-c", code, PLIMSOLL="1")
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_a_removed_package_is_not_an_error(environment):
    python, file, _ = enabled(environment)
    file.write_text(file.read_text().replace("_start", "_gone"))
    ran = run(python, "-c", "print('fine')", PLIMSOLL="1")
    assert (ran.stdout, ran.stderr) == ("fine\n", "")


def test_disable_removes_the_file(environment):
    _, file, _ = enabled(environment)
    assert file.exists()
    assert "removed " in enabled(environment, "disable")[2]
    assert not file.exists()
    assert "nothing to do" in enabled(environment, "disable")[2]


def test_other_installations_are_left_alone(monkeypatch):
    main = runpy.run_path(str(ENABLE))["main"]
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(SystemExit, match="not in a virtual environment"):
        main("enable")


def test_a_path_with_quotes_and_other_letters(tmp_path):
    line_of = runpy.run_path(str(ENABLE))["line_of"]
    line = line_of(str(tmp_path / 'it\'s "ä" \\n'))
    assert line.isascii()
    assert line.count("\n") == 1
    compile(line, "x.pth", "exec")
