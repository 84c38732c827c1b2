"""Snapshots and recordings from a real GPU, compared with torch's own figures.

`samples/gpu/truth.md` describes them.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

WORKSPACES = (33_554_432, 1_048_576)  # bytes of cuBLAS and cuBLASLt on an H100
# In snapshots of the forward pass, the expected categories count the float32 loss as "other".
LOSS_BYTES = 4

SNAPSHOTS = [
    f"{model}.{point}"
    for model in ("convnext", "gpt2_bf16", "lstm", "vit")
    for point in ("step", "forward")
]

# Recordings, and the sum of their workspaces at the end.
WORKSPACES_OF = {
    "g01_losses_with_graph": 68_157_440,
    "g03_val_without_no_grad": 68_157_440,
    "g04_growing_lengths": 68_157_440,
    "g07_quadratic_attention": 68_157_440,
    "g12_cudnn_workspace": 0,
    "g15_outside_torch": 68_157_440,
    "h01_gpt2": 68_157_440,
    "h03_inference": 34_603_008,
    "h05_amp_warmup": 68_157_440,
    "llama_1b_exact": 67_108_864,
    "llama_1b_oom": 67_108_864,
    "oom_activations": 68_157_440,
    "oom_first_step": 68_157_440,
    "oom_fragmentation": 68_157_440,
    "sample": 68_157_440,
}


@pytest.fixture(scope="module")
def gpu(samples: Path) -> Path:
    return samples / "gpu"


@functools.cache  # several tests read the same report
def report_of(command: str, path: Path, *options: str) -> dict:
    done = subprocess.run(
        [command, "report", "--json", path, *options], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def categories_at_end(command: str, path: Path) -> dict[str, int]:
    report = report_of(command, path, "--device", "cuda:0", "--at", "end")
    return {row["key"]: row["bytes"] for row in report["tables"]["by_category"]}


def first_of(names, count: int) -> list:
    """Parameters of a test, of which only the first are in the gate."""
    slow = pytest.mark.slow
    return [*list(names)[:count], *(pytest.param(name, marks=slow) for name in list(names)[count:])]


@pytest.mark.parametrize("name", first_of(SNAPSHOTS, 2))
def test_every_block_of_a_snapshot_has_its_role(
    gpu: Path, plimsoll_command: str, name: str
) -> None:
    model, point = name.split(".")
    truth = json.loads((gpu / "snapshots" / f"{model}.truth.json").read_text())[point]
    expected: collections.Counter[str] = collections.Counter()
    for block in truth["blocks"].values():
        is_workspace = block["role"] == "other" and block["requested"] in WORKSPACES
        expected["workspace" if is_workspace else block["role"]] += block["requested"]
    if point == "forward":
        assert expected.pop("other") == LOSS_BYTES
        expected["activation"] += LOSS_BYTES
    found = categories_at_end(plimsoll_command, gpu / "snapshots" / f"{name}.pickle")
    assert found == expected


@pytest.mark.parametrize("name", first_of(WORKSPACES_OF, 5))
def test_workspaces_are_found_in_recordings_that_do_not_name_them(
    gpu: Path, plimsoll_command: str, name: str
) -> None:
    found = categories_at_end(plimsoll_command, gpu / "recordings" / f"{name}.plim")
    assert found.get("workspace", 0) == WORKSPACES_OF[name]
    truth = gpu / "recordings" / f"{name}.truth.json"
    allocated = json.loads(truth.read_text()).get("end", {}) if truth.is_file() else {}
    if "allocated" in allocated:
        assert sum(found.values()) == allocated["allocated"]


# From truth.md: the correct ids of the first finding; it must name one of the lines.
PLANTED = {
    "g01_losses_with_graph": ({"memory_growth"}, (17, 9, 10, 15)),
    "g03_val_without_no_grad": (
        {"graph_without_backward", "activations_dominate", "peak_outside_training"},
        (14,),
    ),
    "g04_growing_lengths": ({"stranded_memory", "activations_dominate"}, (13, 16)),
    "g07_quadratic_attention": (
        {"one_line_dominates", "one_layer_dominates", "activations_dominate"},
        (11,),
    ),
    "g12_cudnn_workspace": (
        {
            "one_line_dominates",
            "one_layer_dominates",
            "activations_dominate",
            "peak_outside_training",
        },
        (6, 10),
    ),
    # CuPy's memory is outside torch, so no line may be named.
    "g15_outside_torch": ({"non_pytorch_memory"}, ()),
}
HEALTHY = ("h01_gpt2", "h03_inference", "h05_amp_warmup", "llama_1b_exact")


def text_of(finding: dict) -> str:
    steps = [step["text"] for step in finding["steps"]]
    return "\n".join([finding["title"], *finding["evidence"], *steps])


@pytest.mark.parametrize("name", PLANTED)
def test_the_first_finding_is_the_planted_mistake(
    gpu: Path, plimsoll_command: str, name: str
) -> None:
    first = report_of(plimsoll_command, gpu / "recordings" / f"{name}.plim")["findings"][0]
    ids, lines = PLANTED[name]
    assert first["id"] in ids, text_of(first)
    if lines:
        assert any(f"{name}.py:{line} " in text_of(first) + " " for line in lines), text_of(first)
    else:
        assert f"{name}.py" not in text_of(first)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_has_no_warning_and_no_finding_of_workspaces(
    gpu: Path, plimsoll_command: str, name: str
) -> None:
    report = report_of(plimsoll_command, gpu / "recordings" / f"{name}.plim")
    assert {each["severity"] for each in report["findings"]} <= {"info"}
    ids = {each["id"] for each in report["findings"]}
    assert not ids & {"one_line_dominates", "one_layer_dominates", "library_workspaces"}


# Torch's peaks of allocated and reserved bytes.
PEAKS = {
    "g01_losses_with_graph": (388_026_368, 402_653_184),
    "g03_val_without_no_grad": (625_228_800, 652_214_272),
    "g04_growing_lengths": (898_648_576, 3_055_550_464),
    "g07_quadratic_attention": (1_331_382_784, 1_610_612_736),
    "g12_cudnn_workspace": (2_579_188_224, 2_667_577_344),
    "g15_outside_torch": (110_141_952, 113_246_208),
    "h01_gpt2": (910_760_960, 1_021_313_024),
    "h03_inference": (59_953_152, 77_594_624),
    "h05_amp_warmup": (135_408_640, 165_675_008),
}


@pytest.mark.parametrize("name", PEAKS)
def test_peaks_are_torchs(gpu: Path, plimsoll_command: str, name: str) -> None:
    devices = report_of(plimsoll_command, gpu / "recordings" / f"{name}.plim")["devices"]
    (device,) = (each for each in devices if each["device"] == 0)
    peaks = (device["allocated"]["peak_bytes"], device["reserved"]["peak_bytes"])
    assert peaks == PEAKS[name]


# PLIMSOLL_BLESS=1 updates them; read the difference before you commit it.
GOLDEN = Path(__file__).parent / "golden" / "gpu"
REPORTED = [
    *(f"recordings/{name}.plim" for name in WORKSPACES_OF),
    "recordings/cuda_driver_shared.plim",
    *(f"snapshots/{name}.pickle" for name in SNAPSHOTS),
    "snapshots/llama_1b_out_of_memory.pickle",
]


@pytest.mark.parametrize("name", REPORTED)
def test_findings_read_as_they_should(gpu: Path, plimsoll_command: str, name: str) -> None:
    findings = report_of(plimsoll_command, gpu / name)["findings"]
    text = ""
    for finding in findings:
        text += f"{finding['severity']} {finding['id']}\n"
        text += f"  {finding['title']}\n"
        text += "".join(f"  - {sentence}\n" for sentence in finding["evidence"])
        for step in finding["steps"]:
            bound = "≤ " if step["is_upper_bound"] else ""
            text += f"  > {step['text']} (saves {bound}{step['saving_bytes']})\n"
    page = GOLDEN / f"{Path(name).stem}.txt"
    if "PLIMSOLL_BLESS" in os.environ:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    assert text == page.read_text(encoding="utf-8")
