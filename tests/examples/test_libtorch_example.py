"""The C++ example, built with the torch of this Python: it learns, and is recorded."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples/libtorch"


def configure(build: Path, python: str) -> subprocess.CompletedProcess:
    # A debug build is enough: most of the time goes to torch's headers.
    settings = [f"-DPLIMSOLL_TORCH_PYTHON={python}", "-DCMAKE_BUILD_TYPE=Debug"]
    return subprocess.run(
        [
            "cmake",
            "-S",
            SOURCE,
            "-B",
            build,
            "-G",
            "Ninja",
            "-DCMAKE_CXX_FLAGS_DEBUG=-O1",
            *settings,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def program(libtorch_programs) -> Path:
    return libtorch_programs / "example/plimsoll_libtorch_train"


SMALL = ["--steps", "40", "--batch-size", "16", "--width", "8", "--size", "16", "--threads", "1"]


@pytest.fixture(scope="module")
def recorded(program, tmp_path_factory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("libtorch") / "train.plim"
    ran = subprocess.run(
        [program, *SMALL, "--trace", path], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return ran.stdout, path


@pytest.fixture(scope="module")
def report(recorded, plimsoll_command) -> dict:
    text = subprocess.run(
        [plimsoll_command, "report", "--json", recorded[1]], capture_output=True, check=True
    )
    return json.loads(text.stdout)


def losses(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", text)]


def test_it_learns_and_recording_changes_nothing(program, recorded):
    plain = subprocess.run([program, *SMALL], capture_output=True, text=True, check=True).stdout
    assert losses(plain) == losses(recorded[0])
    assert losses(plain)[-1] < 0.7 * losses(plain)[0]


def test_layers_are_those_that_the_program_names(report):
    layers = {row["layer"] for row in report["tables"]["layers"]}
    blocks = {f"Net.block{n}{part}" for n in (1, 2) for part in ("", ".conv", ".norm")}
    assert layers == {"", "Net", "Net.head"} | blocks


def test_parameters_gradients_and_adam_state_match_arithmetic(report):
    width, size = 8, 16
    conv = 9 * width + 9 * width * 2 * width
    norm = 2 * width + 2 * 2 * width
    head = (2 * width * (size // 4) ** 2 + 1) * 8
    parameters = 4 * (conv + norm + head)
    end = report["tables"]["steps"][20]["categories"]
    live = {row["category"]: row["end_bytes"] for row in end}
    assert live["parameter"] == parameters
    assert live["gradient"] == parameters
    assert live["optimizer_state"] == 2 * parameters


def test_backward_memory_has_the_layer_of_its_forward_operator(report):
    rows = {row["layer"]: row["own"] for row in report["tables"]["layers"]}
    assert rows["Net.block1.norm"]["backward_bytes"] + rows["Net.block2.norm"]["backward_bytes"] > 0


def test_steps_are_marked_and_nothing_is_live_at_the_end(report):
    steps = [row for row in report["tables"]["steps"] if row["is_complete"]]
    assert len(steps) == 40
    (cpu,) = report["devices"]
    assert cpu["requested_active"]["end_bytes"] == 0


def without_learning(text: str) -> str:
    return re.sub(r"^(step|recorded) .*\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("trace", [False, True])
def test_monitors_report_memory_with_and_without_a_recording(program, golden, trace, tmp_path):
    flags = ["--monitor", "yes", *(["--trace", tmp_path / "train.plim"] if trace else [])]
    environment = {"PLIMSOLL_MONITOR_VERBOSE_BATCHES": "2"}
    ran = subprocess.run(
        [program, *SMALL, *flags], capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stderr == ""
    golden(without_learning(ran.stdout), "monitors/libtorch_train.txt")
    changes = [float(mb) for mb in re.findall(r"→.*\(([-+][\d.]+) MB\)", ran.stdout)]
    data, forward, backward, _ = changes
    assert data >= 0
    assert forward > 0.3
    assert forward + backward < 0.2


@pytest.mark.parametrize("trace", [False, True])
def test_samples_go_into_a_log_and_for_tensorboard(program, trace, tmp_path):
    flags = ["--monitor", "yes", "--output-dir", tmp_path]
    flags += ["--trace", tmp_path / "train.plim"] if trace else []
    ran = subprocess.run([program, *SMALL, *flags], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    (log,) = (tmp_path / "profiles").iterdir()
    text = log.read_text()
    assert re.findall(r"=== Iteration (\d+) ", text) == ["20", "40"]
    assert len(re.findall(r"\| loss [\d.]+ ===", text)) == 2
    assert re.search(r"^Dtypes: float32 [\d.]+ MB", text, re.MULTILINE)
    for category in ("parameter", "gradient", "optimizer_state"):
        assert re.search(rf"^Categories: .*\b{category} [\d.]+ MB", text, re.MULTILINE)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_a_configuration_has_all_options_of_the_flags_and_more(program, tmp_path, nvtx_tool):
    config = tmp_path / "c.yaml"
    config.write_text(
        f"plimsoll: {{interval: 20, verbose_batches: 1, output_dir: {tmp_path}, nvtx: true}}\n"
    )
    log = tmp_path / "nvtx.log"
    tool = {"NVTX_INJECTION64_PATH": nvtx_tool, "FAKE_NVTX_LOG": str(log)}
    ran = subprocess.run(
        [program, *SMALL, "--config", config],
        capture_output=True, text=True, check=True, env=os.environ | tool,
    )  # fmt: skip
    assert ran.stderr == ""
    assert ran.stdout.count("  Batch 0: ") == 1
    assert "  Batch 1: " not in ran.stdout
    (text_log,) = (tmp_path / "profiles").iterdir()
    assert text_log.read_text().count("=== Iteration ") == 2
    lines = [line.split(" ", 1)[1] for line in log.read_text().splitlines()]
    at = lines.index("push layer Net.block1")
    assert lines[at - 2 : at] == ["push phase forward", "push layer Net"]
    assert "push layer Net.block1.conv" in lines
    assert lines.count("push phase backward") == lines.count("push phase optimizer") == 40
    assert sum(line.startswith("push") for line in lines) == lines.count("pop")
    config.write_text("plimsoll:\n  intervall: 20\n")
    ran = subprocess.run([program, "--config", config], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"{config}:2:3: plimsoll: no option 'intervall': did you mean")


def test_without_monitor_nothing_is_reported_and_mistakes_are_reported_immediately(program):
    plain = subprocess.run([program, *SMALL], capture_output=True, text=True, check=True)
    assert without_learning(plain.stdout) == plain.stderr == ""
    wrong = subprocess.run(
        [program, *SMALL], capture_output=True, text=True, check=False,
        env={"PLIMSOLL_MONITOR_VERBOSE": "2"},
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "did you mean 'verbose_batches'?" in wrong.stderr


def test_it_builds_against_the_source_tree_where_nothing_is_installed(tmp_path):
    configured = configure(tmp_path, sys.executable)
    assert configured.returncode == 0, configured.stderr
    rules = (tmp_path / "build.ninja").read_text()
    assert "adapters/libtorch/adapter.cc" in rules
    assert "plimsoll_record" in rules


def test_without_torch_a_message_is_printed(tmp_path):
    without = tmp_path / "python"
    without.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"
    )
    without.chmod(0o755)
    configured = configure(tmp_path / "build", str(without))
    assert configured.returncode != 0
    assert "cannot import torch" in " ".join(configured.stderr.split())
    shutil.rmtree(tmp_path / "build")


def test_a_file_that_cannot_be_written_does_not_stop_the_training(program):
    ran = subprocess.run(
        [program, *SMALL, "--trace", "/dev/null/x.plim"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "/dev/null/x.plim" in ran.stderr
    assert losses(ran.stdout)
