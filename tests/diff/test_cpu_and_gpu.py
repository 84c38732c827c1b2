"""Programs recorded on an H100, compared with the same programs on the CPU.

`samples/gpu/README.md` describes the recordings. Bytes on the CPU are those of the torch in
requirements-dev.txt.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

# The scripts import `probe` to write down torch's figures of the GPU.
PROBE = """
def step(): pass
def live(): return 0
def truth(**more): pass
def growth(skip=4): pass
"""

ROUNDING = 512  # bytes of a block on a GPU

# The peak on the CPU and on the GPU, and the bytes of its causes.
CASES = {
    "g01_losses_with_graph": (319_856_752, 388_026_368, {"new": 68_157_440}),
    "g03_val_without_no_grad": (
        536_078_832,
        625_228_800,
        {"new": 68_157_440, "more_kept": 16_777_216, "grew": 4_194_304},
    ),
    "g07_quadratic_attention": (
        961_204_696,
        1_331_382_784,
        {"new": 68_157_440, "replaced": 301_989_872},
    ),
    "g12_cudnn_workspace": (
        331_514_376,
        2_579_188_224,
        {"grew": 2_340_421_632, "now_saved": 47_185_920, "peak_moved": -139_935_236},
    ),
    "h03_inference": (
        26_923_008,
        59_953_152,
        {"new": 34_603_008, "shrank": -2_621_440, "grew": 1_048_576},
    ),
}


@pytest.fixture(scope="module")
def difference(samples: Path, plimsoll_command: str, tmp_path_factory: pytest.TempPathFactory):
    """Record a script on the CPU, and compare the recording with that of the GPU."""

    def compare(name: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(name)
        source = (samples / f"gpu/scripts/planted/{name}.py").read_text()
        source = source.replace('"cuda"', '"cpu"')
        source = source.replace("torch.cuda.reset_peak_memory_stats(); ", "")
        (folder / f"{name}.py").write_text(source)
        (folder / "probe.py").write_text(PROBE)
        words = [plimsoll_command, "run", "-o", "cpu.plim", f"{name}.py"]
        environment = {"PLIMSOLL_PYTHON": sys.executable}
        subprocess.run(["env", *map("=".join, environment.items()), *words], cwd=folder, check=True)
        gpu = samples / f"gpu/recordings/{name}.plim"
        words = [plimsoll_command, "diff", str(folder / "cpu.plim"), str(gpu), "--json"]
        out = subprocess.run(words, check=True, capture_output=True, text=True)
        result: dict[str, Any] = json.loads(out.stdout)
        return result

    return compare


@pytest.mark.parametrize("name", CASES)
def test_a_run_on_the_cpu_and_one_on_a_gpu_are_compared(difference, name):
    before, after, causes = CASES[name]
    found = difference(name)
    assert {point["device"] for point in found["points"]} == {"cuda:0"}
    assert "The devices differ: cpu before, cuda:0 after." in found["notes"][0]
    peak = found["points"][0]
    assert (peak["before_bytes"], peak["after_bytes"]) == (before, after)
    assert {each["id"]: each["difference_bytes"] for each in peak["causes"]} == causes
    for point in found["points"]:
        explained = sum(each["difference_bytes"] for each in point["causes"])
        assert explained + point["everything_else_bytes"] == point["difference_bytes"]
        for row in point["rows"]:
            is_owned = row["category"] in ("parameter", "buffer", "gradient")
            is_large = abs(row["difference_bytes"]) >= ROUNDING
            assert not (is_owned and is_large and row["pairing"] == "unpaired"), row
