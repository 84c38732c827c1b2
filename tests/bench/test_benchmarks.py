"""Each program under bench/ runs, with its smallest input: a published figure can be made again."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
BUILD = ROOT / "build/bench"
PROGRAMS = ["hook", "live_set", "reading", "sample", "shadow", "tiles"]

pytestmark = pytest.mark.slow

# The smallest input of each script, and the number of tables that it prints.
SCRIPTS = {
    "event_cost.py --rounds 2 --calls 20": 1,
    "fleet.py --ranks 64 --runs 60": 1,
    "instructions.py --workloads micro --variants full lite sampled --steps 1 --whole 2": 1,
    "large_inputs.py --share 0.01": 0,
    "limits.py --runs 1": 1,
    "monitor_cost.py --layers 2 --samples 1 --seeds 0 --variants monitor": 1,
    "overhead.py --rounds 2 --seconds 0.01": 1,
    "report_bench.py --events 20000 --pairs 1": 1,
    "scaling.py --to 4000 --sizes 2": 0,
    "tracer_cost.py --times 10 --blocks 2 --batch 8": 3,
}
# What the others import, and one that needs HolisticTraceAnalysis.
OTHERS = {"limit_suite.py", "scaling_recordings.py", "workloads.py", "fleet_hta.py"}


def run(*command, timeout=1200):
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def test_each_script_is_here():
    named = {script.split()[0] for script in SCRIPTS}
    assert named | OTHERS == {path.name for path in BENCH.glob("*.py")}
    folders = {path.name for path in BENCH.iterdir() if (path / "CMakeLists.txt").is_file()}
    assert folders == {*PROGRAMS, "generator"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.split()[0])
def test_script(script, built):
    name, *words = script.split()
    if name in ("instructions.py", "monitor_cost.py"):
        assert shutil.which("valgrind"), "scripts/setup installs valgrind"
    if name in ("large_inputs.py", "report_bench.py", "scaling.py"):
        words += ["--plimsoll", str(built("src/cli/plimsoll"))]
    if name == "report_bench.py":
        words += ["--generator", str(built("bench/generator/plimsoll_snapshot_generator"))]
    out = run(sys.executable, str(BENCH / name), *words)
    assert len(re.findall(r"^\|-", out, re.MULTILINE)) == SCRIPTS[script], out
    assert len(out.splitlines()) > 1


@pytest.fixture(scope="session")
def programs():
    command = ["cmake", "--preset", "gate", "-B", str(BUILD), "-DPLIMSOLL_BENCH=ON"]
    run(*command, "-DPLIMSOLL_TESTS=OFF", "-DPLIMSOLL_PYTHON=OFF")
    targets = [f"plimsoll_{name}_bench" for name in PROGRAMS]
    run("cmake", "--build", str(BUILD), "--target", *targets, "-j", str(os.cpu_count()))
    return {name: next(BUILD.glob(f"bench/{name}/plimsoll_*_bench")) for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, programs, tmp_path):
    words = {
        "hook": [str(tmp_path / "bench.plim"), "1"],
        "live_set": ["1000", "10"],
        "reading": ["10000"],
        "sample": [],
        "shadow": [],
        "tiles": ["1000", "10"],
    }
    assert run(str(programs[name]), *words[name])
