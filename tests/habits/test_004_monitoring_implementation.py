"""Unobtrusive monitoring: the habits of users who enable it by configuration."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from habit_models import make, mebibytes

import plimsoll

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "name",
    [
        "BatchMemoryProfiler",
        "EpochMemoryMonitor",
        "LayerMemoryStats",
        "MemoryEvent",
        "MemoryMonitor",
        "MemoryTracer",
        "MemoryTracker",
        "log_tensor_memory_breakdown",
        "monitor_memory",
        "track_memory",
    ],
)
def test_every_name_is_imported_from_the_package(name):
    assert name in plimsoll.__all__
    assert inspect.getdoc(getattr(plimsoll, name))


class Trainer:
    """A trainer with only three lines of monitoring."""

    def __init__(self, device, config):
        self.device = device
        self.model, self.x = make(device)
        options = plimsoll.load_options(config)
        if options.enabled:
            self.memory_monitor = plimsoll.EpochMemoryMonitor(
                enabled=True, verbose_batches=options.verbose_batches
            )

    def train_epoch(self, batches):
        if hasattr(self, "memory_monitor"):
            self.memory_monitor.on_epoch_start()
        for batch_idx in range(batches):
            loss = self.model(self.x).square().mean()
            loss.backward()
            if hasattr(self, "memory_monitor"):
                self.memory_monitor.on_batch_end(batch_idx, loss)
        if hasattr(self, "memory_monitor"):
            self.memory_monitor.on_epoch_end()


def test_three_lines_in_the_trainer(device, capsys):
    trainer = Trainer(device, {"trainer_params": {"enable_memory_monitoring": True}})
    trainer.train_epoch(7)
    trainer.train_epoch(7)
    out = capsys.readouterr().out
    assert out.count("Memory monitoring enabled (verbose for first 5 batches)") == 1
    assert len(re.findall(r"^ *Batch \d: .* loss=\d\.\d{6}$", out, re.M)) == 10
    assert out.count("Epoch end") == 2


def test_production_has_no_overhead(device, capsys):
    trainer = Trainer(device, {"trainer_params": {"enable_memory_monitoring": False}})
    assert not hasattr(trainer, "memory_monitor")
    trainer.train_epoch(3)
    assert capsys.readouterr().out == ""
    assert not plimsoll._record.is_recording()


def test_arguments_are_positional_as_people_write_them(device, capsys):
    mebibytes(1, device)
    monitor = plimsoll.EpochMemoryMonitor(True, 1)
    monitor.on_epoch_start()
    monitor.on_batch_end(0, 0.00531)
    monitor.on_epoch_end()
    profiler = plimsoll.BatchMemoryProfiler(True)
    profiler.checkpoint("data_loaded")
    profiler.checkpoint("forward")
    profiler.print_summary()
    out = capsys.readouterr().out
    assert "loss=0.005310" in out
    assert "data_loaded → forward: " in out


def test_the_old_cluttered_loop_still_works(device, capsys):
    model, x = make(device)
    if torch.cuda.is_available() and hasattr(torch._C, "_cuda_resetPeakMemoryStats"):
        torch.cuda.reset_peak_memory_stats()
    for batch_idx in range(7):
        model(x).sum().backward()
        if batch_idx < 5:
            plimsoll.MemoryMonitor.print_memory_usage(f"Batch {batch_idx}: ")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"Batch {index}" for index in range(5)]


def test_configurations_are_compared_in_a_script(device, capsys):
    tracker = plimsoll.MemoryTracker()
    tracker.record("baseline")
    with plimsoll.track_memory("config_A"):
        mebibytes(2, device)
    with plimsoll.track_memory("config_B"):
        mebibytes(7, device)
    tracker.print_summary()
    out = capsys.readouterr().out
    assert re.findall(r"\[Memory\] (config_\w)", out) == ["config_A", "config_B"]
    peaks = [float(each) for each in re.findall(r"Peak .*: (\d+\.\d) MB", out)]
    assert peaks[1] - peaks[0] == pytest.approx(5.0, abs=0.2)
    assert "baseline" in out


# The command line ---------------------------------------------------------------------------------

SMALL = "trainer_params.steps=6 trainer_params.batch_size=4 trainer_params.unroll=2"
SMALL += " model.width=8 model.depth=2 data.grid=64 data.trajectories=4 data.held_out=2"
SMALL += " data.frames=5"


def test_an_override_turns_monitoring_on(run, tmp_path):
    program = ROOT / "examples/run.py"
    plain = run(
        "python", program, "--config-name=burgers_experiment", *SMALL.split(), cwd=tmp_path
    ).stdout
    assert "Memory monitoring enabled" not in plain
    assert "Epoch end" not in plain
    words = ["--config-name=burgers_experiment", "trainer_params.enable_memory_monitoring=true"]
    out = run("python", program, *words, *SMALL.split(), cwd=tmp_path).stdout
    assert "Memory monitoring enabled (verbose for first 5 batches)" in out.splitlines()
    assert "Epoch end" in out
    assert not list(tmp_path.iterdir())


def test_the_configuration_files_are_there():
    folder = ROOT / "examples/conf"
    for name in ("burgers_experiment", "heat_physical_experiment"):
        assert (folder / f"{name}.yaml").is_file()
    for name in ("synthetic_with_memory", "physical_with_memory"):
        options = plimsoll.load_options(str(folder / "trainer" / f"{name}.yaml"))
        assert options.enabled
        assert options.verbose_batches == 5


def test_six_demos(run, tmp_path):
    out = run("python", "-m", "plimsoll.examples", cwd=tmp_path).stdout
    for line in (
        r"CPU: \d+\.\d MB \| ",
        r"\[Memory\] .*: CPU [+-]",
        r"Peak ",
        r"Batch 0: ",
        r"Epoch end: ",
        r"    Memory profile:",
        r" → ",
    ):
        assert re.search(line, out), line


# Features that the guide postponed ----------------------------------------------------------------


def test_metrics_go_to_tensorboard_and_wandb(device, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    logged = []
    run = wandb.init(project="habits", dir=str(tmp_path))
    log = run.log
    monkeypatch.setattr(run, "log", lambda data, **words: (logged.append(data), log(data, **words)))
    model, x = make(device)
    with plimsoll.TrainingMonitor(
        interval=1, wandb=True, tensorboard=True, output_dir=str(tmp_path)
    ) as monitor:
        for iteration in range(1, 4):
            model(x).sum().backward()
            monitor.step(iteration)
    wandb.finish()
    assert len(logged) >= 3
    tags = {key for data in logged for key in data}
    assert any("Tensor_Category/parameters_MB" in tag for tag in tags)
    assert list(tmp_path.glob("tensorboard/**/events.out.tfevents.*"))


@pytest.mark.parametrize("threshold", ["8MiB", "8MB", ["8MiB", "90%"]])
def test_a_threshold_alerts(device, tmp_path, threshold):
    alerts = []
    options = {"output_dir": str(tmp_path), "interval": 1, "text_log": False}
    with plimsoll.TrainingMonitor(
        **options, alert_above=threshold, on_alert=alerts.append
    ) as monitor:
        monitor.step(1)
        kept = mebibytes(64, device)
        monitor.step(2)
        monitor.step(3)
    del kept
    name = "cuda:0" if device == "cuda" else "host"  # the process
    of_device = [alert for alert in alerts if alert.device == name]
    above = [alert for alert in of_device if "above" in alert.id or "threshold" in alert.id]
    assert len(above) == 1, [(alert.id, alert.device, alert.title) for alert in alerts]
    assert "MiB" in above[0].title


def test_blocks_appear_in_a_profile_of_torch(device, tmp_path):
    path = tmp_path / "trace.json"
    on_cpu = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with on_cpu as profile, plimsoll.track_memory("loading dataset"):
        mebibytes(3, device)
    profile.export_chrome_trace(str(path))
    names = {event.get("name", "") for event in json.loads(path.read_text())["traceEvents"]}
    assert any("loading dataset" in name for name in names)


def test_a_smaller_batch_is_suggested(tmp_path, capfd):
    """The advice needs the total memory of a device; here it comes from the fake driver."""
    model, x = make("cpu")
    monitor = plimsoll.TrainingMonitor(
        interval=1, batch_size=64, text_log=False, output_dir=str(tmp_path)
    )
    with pytest.raises(RuntimeError), monitor:
        for iteration in range(1, 12):
            model(x).sum().backward()
            model.zero_grad()
            monitor.step(iteration)
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1")
    assert re.search(r"ran out in iteration", capfd.readouterr().err)


def test_each_rank_names_itself(run, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import plimsoll\n"
        "monitor = plimsoll.EpochMemoryMonitor(True, 1)\n"
        "monitor.on_epoch_start()\n"
        "monitor.on_batch_end(0, 0.5)\n"
        "monitor.on_epoch_end()\n"
    )
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    out = run("python", *torchrun, program, cwd=tmp_path).stdout
    assert re.search(r"\[rank 0\].*Batch 0", out)
    assert re.search(r"\[rank 1\].*Batch 0", out)


def test_importing_costs_nothing_and_needs_no_psutil(tmp_path):
    program = (
        "import sys; sys.modules['psutil'] = None\n"
        "import plimsoll\n"
        "assert 'torch' not in sys.modules\n"
        "assert plimsoll.MemoryMonitor.get_cpu_memory_mb() > 1\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
