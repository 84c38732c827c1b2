"""The tensor profiler: the habits of users who train Gaussians and read logs afterwards."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from habit_models import Writer, make, scalars
from splatting_habits import iterations_of, parsed, train

import plimsoll
from plimsoll import log_tensor_memory_breakdown

# The switch ---------------------------------------------------------------------------------------


def test_the_flag_is_off_by_default():
    assert not parsed().profile_tensors
    assert not plimsoll.load_options(parsed()).enabled


@pytest.mark.parametrize(
    ("words", "on"),
    [
        (["--profile_tensors", "True"], True),
        (["--profile_tensors", "true"], True),
        (["--profile_tensors"], True),
        (["--profile_tensors", "False"], False),
        ([], False),
    ],
)
def test_programs_may_ask_the_flag_itself(words, on):
    args = parsed(*words)
    assert hasattr(args, "profile_tensors")
    assert bool(args.profile_tensors) is on
    assert plimsoll.load_options(args).enabled is on


def test_off_writes_no_folder(device, tmp_path):
    with plimsoll.TrainingMonitor(parsed(), output_dir=str(tmp_path)) as monitor:
        train(device, monitor, iterations=60)
    assert not list(tmp_path.iterdir())
    assert not plimsoll._record.is_recording()


def test_one_switch_gives_the_log_and_tensorboard(device, tmp_path):
    args = parsed("--profile_tensors", "True")
    with plimsoll.TrainingMonitor(args, output_dir=str(tmp_path)) as monitor:
        train(device, monitor, iterations=101)
    (log,) = (tmp_path / "profiles").glob("tensor_profile_*.log")
    assert re.fullmatch(r"tensor_profile_\d{8}_\d{6}\.log", log.name)
    assert iterations_of(log) == [50, 100]
    found = scalars(tmp_path / "tensorboard")
    category = found["TensorProfiling/Tensor_Category/parameters_MB"]
    assert [step for step, _ in category] == [50, 100]


@pytest.mark.parametrize("section", ["TensorProfiling", "Memory"])
def test_the_section_of_the_tags(device, tmp_path, section):
    words = ["--profile_tensors", "True", "--profile_section", section]
    with plimsoll.TrainingMonitor(parsed(*words), output_dir=str(tmp_path)) as monitor:
        train(device, monitor, iterations=50)
    found = scalars(tmp_path / "tensorboard")
    for tag in (
        "Tensor_Category/parameters_MB",
        "Tensor_Category/activations_MB",
        "Tensor_Category/gradients_MB",
        "Tensor_DType/float32_MB",
        "Large_Tensors/count",
        "Large_Tensors/total_MB",
        "Tensor_Count/total",
    ):
        assert f"{section}/{tag}" in found
    assert (f"{section}/fragmentation_percent" in found) == (device == "cuda")


def test_the_switch_alone_shows_under_tensor_profiling(tmp_path, device):
    args = parsed("--profile_tensors", "True")
    with plimsoll.TrainingMonitor(args, output_dir=str(tmp_path)) as monitor:
        train(device, monitor, iterations=50)
    assert "TensorProfiling/Tensor_Count/total" in scalars(tmp_path / "tensorboard")


def test_the_interval_is_a_flag(device, tmp_path):
    args = parsed("--profile_tensors", "True", "--profile_interval", "20")
    with plimsoll.TrainingMonitor(args, output_dir=str(tmp_path)) as monitor:
        train(device, monitor, iterations=60)
    (log,) = (tmp_path / "profiles").glob("*.log")
    assert iterations_of(log) == [20, 40, 60]


def test_only_a_phase_is_profiled_by_a_condition_of_the_program(device):
    writer = Writer()
    model, x = make(device)
    for iteration in range(44990, 48030, 5):
        if iteration >= 45000 and iteration <= 48000:
            log_tensor_memory_breakdown(writer, iteration, interval=1000)
    assert model(x).shape == (64, 4)
    steps = [step for step, _ in writer.points["Memory/Tensor_Count/total"]]
    assert steps == [45000, 46000, 47000, 48000]


def test_only_a_phase_is_profiled_by_an_option(device, tmp_path):
    options = {"interval": 0, "phases": "20-31:5", "output_dir": str(tmp_path)}
    with plimsoll.TrainingMonitor(**options) as monitor:
        train(device, monitor, iterations=60)
    (log,) = (tmp_path / "profiles").glob("*.log")
    assert iterations_of(log) == [20, 25, 30]


# The text log -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["path", "text", "file"])
def test_the_call_writes_a_log_file_of_the_programs(device, tmp_path, run, kind):
    path = tmp_path / "tensor_profile_20260129_133621.log"
    model, x = make(device)
    writer = Writer()
    log_file = {"path": path, "text": str(path), "file": path.open("w")}[kind]
    for iteration in (100, 150, 200):
        model(x)
        log_tensor_memory_breakdown(writer, iteration, interval=100, log_file=log_file)
    if kind == "file":
        log_file.close()
    assert iterations_of(path) == [100, 200]
    assert run("plimsoll", "analyze", path, cwd=tmp_path).stdout


def log_of(device, tmp_path, iterations=20):
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=10) as monitor:
        train(device, monitor, iterations=iterations)
    return Path(monitor.text_log_path)


def test_a_script_reads_allocated_line_by_line(device, tmp_path):
    read = []
    with log_of(device, tmp_path).open() as file:
        for line in file:
            if "Allocated:" in line:
                found = re.search(r"Allocated: ([\d.]+) MB", line)
                read.append(float(found.group(1)))
    assert len(read) == 2
    assert all(0.4 < each < 64 for each in read)


@pytest.mark.only("cuda")
def test_fragmentation_is_grepped(device, tmp_path):
    log = log_of(device, tmp_path)
    lines = subprocess.run(
        f"grep 'Fragmentation:' {log.parent}/tensor_profile_*.log",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert len(lines) == 2
    assert all(re.fullmatch(r"Fragmentation: \d+\.\d%", line) for line in lines)


def test_large_tensors_are_listed_with_their_shapes(device, tmp_path):
    model, _ = make(device)
    model.register_buffer("features_rest", torch.zeros(700_000, 15, 3).to(device))
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=1) as monitor:
        monitor.step(1)
    text = Path(monitor.text_log_path).read_text()
    assert re.search(r"\[700000, 15, 3\] \| float32 \| buffer", text), text


def test_a_snapshot_takes_about_a_kilobyte(device, tmp_path):
    log = log_of(device, tmp_path, iterations=100)
    assert log.stat().st_size / 10 < 3000


def test_a_due_sample_is_written_immediately(device, tmp_path):
    options = {"output_dir": str(tmp_path), "interval": 10, "tensorboard": True}
    with plimsoll.TrainingMonitor(**options) as monitor:
        train(device, monitor, iterations=10)
        assert iterations_of(Path(monitor.text_log_path)) == [10]
        assert scalars(tmp_path / "tensorboard")


# analyze ------------------------------------------------------------------------------------------

HEADER = "# Plimsoll tensor profile, format 1. MB are 1024 x 1024 bytes.\n\n"


def snapshot(iteration, allocated, reserved):
    fragmented = 100 * (reserved - allocated) / reserved
    second, minute = iteration // 50 % 60, iteration // 3000 % 60
    parts = {"parameter": 0.641, "activation": 0.351, "gradient": 0.008}
    shares = ", ".join(f"{name} {allocated * part:.1f} MB in 59" for name, part in parts.items())
    return f"""\
=== Iteration {iteration} | 2026-01-29T13:{minute:02}:{second:02}.000Z ===
Device: cuda:0
Allocated: {allocated:.1f} MB
Reserved: {reserved:.1f} MB
Fragmentation: {fragmented:.1f}%
Tensors: 1267 in {allocated:.1f} MB
Categories: {shares}
Dtypes: float32 {allocated * 0.926:.1f} MB in 1000, int64 {allocated * 0.074:.1f} MB in 60
Large tensors: 7 in 4000.0 MB, each above 100.0 MB
  1024.0 MB | [1000000, 15, 3] | float32 | parameter | - | _features_rest

"""


def write_log(folder, *, reserved=10976.0, name="tensor_profile_20260129_133621.log"):
    """A log of 10,000 iterations on a GPU, which this machine does not need."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        snapshot(i, 8073.4 if i == 40000 else 8156.2, 10126.0 if i == 40000 else reserved)
        for i in range(40000, 50001, 50)
    ]
    path = folder / name
    path.write_text(HEADER + "".join(rows))
    return path


def test_the_report_has_what_people_look_for(run, tmp_path):
    log = write_log(tmp_path / "output/profiles")
    out = run("plimsoll", "analyze", log, cwd=tmp_path).stdout
    for wanted in (
        r"Iteration Range: 40000 - 50000",
        r"Total Snapshots: 201",
        r"Memory Allocated: +Start: 8073\.4 MiB +→ +End: 8156\.2 MiB",
        r"Memory Reserved: +Start: 10126\.0 MiB +→ +End: 10976\.0 MiB",
        r"Fragmentation: +Start: 20\.3% +→ +End: 25\.7%",
        r"Total Tensors: +Start: 1267 +→ +End: 1267",
        r"Tensor Categories \(at end\):",
        r"parameters? +: +5228\.1 MiB +\( *64\.1%\)",
        r"activations? +: +2862\.8 MiB +\( *35\.1%\)",
        r"gradients? +: +65\.2 MiB +\( *0\.8%\)",
        r"Data Types \(at end\):",
        r"float32 +: +7552\.6 MiB +\( *92\.6%\)",
        r"Large Tensors \(>100 MiB\): 7",
    ):
        assert re.search(wanted, out), f"{wanted}\n{out}"


@pytest.mark.parametrize("folder", ["profiles", "output/profiles", "output/garden/profiles"])
def test_latest_finds_the_newest_log_below_the_project(run, tmp_path, folder):
    old = write_log(tmp_path / "output/old/profiles", name="tensor_profile_20250101_000000.log")
    os.utime(old, (1, 1))
    write_log(tmp_path / folder)
    out = run("plimsoll", "analyze", "latest", cwd=tmp_path).stdout
    assert "20260129_133621" in out


def test_latest_without_a_log_is_one_sentence(run, tmp_path):
    done = run("plimsoll", "analyze", "latest", cwd=tmp_path, status=None)
    assert done.returncode != 0
    assert done.stderr.startswith("plimsoll: ")
    assert "log" in done.stderr


@pytest.mark.parametrize(
    ("reserved", "severity"),
    [(10976.0, None), (12500.0, "moderate"), (15000.0, "INFO")],
    ids=["25%", "35%", "46%"],
)
def test_fragmentation_is_judged(run, tmp_path, reserved, severity):
    log = write_log(tmp_path / "profiles", reserved=reserved)
    out = run("plimsoll", "analyze", log, cwd=tmp_path).stdout
    if severity is None:
        assert "moderate" not in out.lower()
        assert not re.search(r"WARNING.*ragment", out)
        return
    assert re.search(severity, out, re.I), out
    assert "empty_cache() does not fix it" in out
    if severity == "moderate":
        assert "expandable_segments" in out


def test_runs_are_compared_side_by_side(run, tmp_path):
    first = write_log(tmp_path / "garden/profiles", reserved=10976.0)
    second = write_log(tmp_path / "kitchen/profiles", reserved=12500.0)
    out = run("plimsoll", "analyze", first, second, cwd=tmp_path).stdout
    assert "garden" in out
    assert "kitchen" in out
    compared = json.loads(run("plimsoll", "analyze", first, second, "--json", cwd=tmp_path).stdout)
    assert compared
