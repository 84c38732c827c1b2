"""The tensor profiler: the habits of users of its other tools, the example and ranks."""

import re
import subprocess

import pytest
import torch
from habit_models import MB, mebibytes
from splatting_habits import EXAMPLE, ROOT, SMALL, train

import plimsoll

# Other tools --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """The folder of a fake NVIDIA driver."""
    folder = tmp_path_factory.mktemp("driver")
    source = ROOT / "tests/support/fake_nvml.cc"
    words = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", source]
    subprocess.run([*words, "-o", folder / "libnvidia-ml.so.1"], check=True)
    return folder


def test_the_gpu_monitor_prints_one_line(run, driver, tmp_path):
    gib = 1 << 30
    (tmp_path / "gpus").write_text(f"device RTX|GPU-a|{16 * gib}|{int(15.6 * gib)}|0|97\n")
    env = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML": str(tmp_path / "gpus")}
    done = run("plimsoll", "top", "--line", "--once", cwd=tmp_path, env=env)
    assert done.stdout == "GPU Memory: 15.6 GB / 16.0 GB (97%)\n"


def test_the_gpu_monitor_updates_every_two_seconds(run, tmp_path):
    said = run("plimsoll", "help", "top", cwd=tmp_path).stdout
    assert re.search(r"--interval[^\n]*\n?[^\n]*\b2\b", said), said


def test_nsight_is_asked_for_thirty_seconds_or_a_whole_session(run, tmp_path):
    """Only the command lines are compared: recording would need a real nsys."""
    part = run("plimsoll", "nsys", "--print", "--attach-seconds", "30", cwd=tmp_path).stdout
    assert re.search(r"nsys start .*\nsleep 30\nnsys stop ", part)
    whole = run("plimsoll", "nsys", "--print", "--", "python3", "train.py", cwd=tmp_path).stdout
    assert re.search(r"nsys profile .*--cuda-memory-usage=true.* python3 train\.py", whole)
    assert re.search(r"nsys stats --report cuda_gpu_mem_size_sum", whole)


def test_tensorboard_shows_several_runs_side_by_side(device, tmp_path):
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    for name in ("scene_1", "scene_2"):
        options = {"output_dir": str(tmp_path / name), "interval": 10, "tensorboard": True}
        with plimsoll.TrainingMonitor(**options) as monitor:
            train(device, monitor, iterations=10)
    runs = EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    runs.Reload()
    assert len(runs.Runs()) == 2


# The example --------------------------------------------------------------------------------------


def test_the_example_has_the_flags_and_their_defaults(run, tmp_path):
    said = run("python", EXAMPLE, "--help", cwd=tmp_path).stdout
    for flag in ("--profile_tensors", "--checkpoint_interval", "--eval", "-i"):
        assert flag in said
    assert re.search(r"--checkpoint_interval[\s\S]{0,120}2000", said)


def test_the_example_trains_profiled_and_is_analyzed(run, tmp_path):
    words = ["-i", "60", *SMALL.split(), "--profile_tensors", "True", "--eval"]
    out = run("python", EXAMPLE, *words, cwd=tmp_path).stdout
    assert re.search(r"held.out.*PSNR|PSNR.*held.out", out, re.I), out
    (log,) = tmp_path.glob("**/profiles/tensor_profile_*.log")
    assert list(log.parents[1].glob("tensorboard/**/events.out.tfevents.*"))
    assert "Total Snapshots: 1" in run("plimsoll", "analyze", "latest", cwd=tmp_path).stdout


def test_ranks_have_logs_and_event_files_of_their_own(run, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import torch, plimsoll\n"
        "model = torch.nn.Linear(64, 64)\n"
        "options = dict(interval=1, tensorboard=True, output_dir='out')\n"
        "with plimsoll.TrainingMonitor(**options) as monitor:\n"
        "    for i in range(1, 4):\n"
        "        model(torch.ones(4, 64)).sum().backward()\n"
        "        monitor.step(i)\n"
    )
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run("python", *torchrun, program, cwd=tmp_path)
    logs = sorted((tmp_path / "out").glob("**/tensor_profile_*.log"))
    events = sorted((tmp_path / "out").glob("**/events.out.tfevents.*"))
    assert len(logs) == len(events) == 2
    assert len({path.parent for path in logs}) == 2
    assert len({path.parent for path in events}) == 2
    assert all(re.search(r"rank[01]", str(path)) for path in (*logs, *events))
    assert "rank" in run("plimsoll", "analyze", *logs, cwd=tmp_path).stdout


def test_growing_parameters_are_noticed(device, tmp_path):
    alerts = []
    kept = torch.nn.ParameterList()
    options = {"output_dir": str(tmp_path), "interval": 1, "text_log": False}
    with plimsoll.TrainingMonitor(**options, on_alert=alerts.append) as monitor:
        for iteration in range(30):
            kept.append(torch.nn.Parameter(mebibytes(1, device)))
            monitor.step(iteration)
    assert "memory_growth" in [alert.id for alert in alerts]
    assert sum(each.nbytes for each in kept) == 30 * MB
