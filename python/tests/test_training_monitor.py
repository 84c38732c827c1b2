"""`plimsoll.TrainingMonitor` on real training."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import plimsoll
from plimsoll import _record
from plimsoll._monitoring.snapshots import Snapshots
from plimsoll._torch import attachment


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def train(monitor: plimsoll.TrainingMonitor, steps: int) -> torch.nn.Module:
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        loss = net(torch.randn(64, 256)).square().mean()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        optimizer.zero_grad()
    return net


def test_a_run_has_a_log_that_analyze_reads(tmp_path: Path, plimsoll_command: str) -> None:
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=2, profile_tensors=True, tensorboard=True
    ) as monitor:
        assert train(monitor, 9)
    assert monitor.samples == 5
    log = Path(monitor.text_log_path).read_text()
    assert log.count("=== Iteration ") == 5
    parameters = 4 * (256 * 512 + 512 + 512 + 1)
    assert f"parameter {parameters / 2**20:.3f} MB in 4" in log
    assert f"optimizer_state {(2 * parameters + 16) / 2**20:.3f} MB in 12" in log
    assert Path(monitor.event_file_path).parent == tmp_path / "tensorboard"
    ran = subprocess.run(
        [plimsoll_command, "analyze", "latest", "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "iterations 0 to 8" in ran.stdout, ran.stdout


class Unread:
    def __float__(self) -> float:
        raise AssertionError("it was read")


def test_a_loss_is_read_only_when_a_sample_is_due(tmp_path: Path) -> None:
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=10) as monitor:
        monitor.step(0, 0.5)
        monitor.step(1, Unread())
    assert monitor.samples == 1


def test_alerts_go_to_the_callback(tmp_path: Path) -> None:
    alerts: list[plimsoll.MemoryAlert] = []
    kept = []
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=1, on_alert=alerts.append
    ) as monitor:
        for _ in range(40):
            kept.append(torch.zeros(1 << 20))
            monitor.step()
    assert alerts
    assert monitor.alerts == len(alerts)
    assert "cpu" in alerts[0].device
    assert alerts[0].next_step == alerts[0].steps[0].text
    assert alerts[0].saving_bytes == alerts[0].steps[0].saving_bytes
    assert f"→ {alerts[0].steps[0]}\n" in str(alerts[0])


@pytest.mark.slow
def test_memory_above_a_threshold_alerts_once_and_again_after_it_has_fallen(tmp_path: Path) -> None:
    alerts: list[plimsoll.MemoryAlert] = []
    now = _record.take_sample().host.rss_bytes or 0
    limit = now + (100 << 20)
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path),
        interval=1,
        alerts=False,
        alert_above=[f"{limit}B", "99.999%"],
        on_alert=alerts.append,
    ) as monitor:
        monitor.step()
        for _ in range(2):
            held = torch.ones((limit + (64 << 20)) // 4)
            monitor.step()
            monitor.step()
            del held
            monitor.step()
            monitor.step()
    assert [alert.id for alert in alerts] == ["above_threshold"] * 2
    assert [alert.iteration for alert in alerts] == [1, 5]
    assert alerts[0].device == "host"
    assert alerts[0].title.startswith("This process uses ")
    assert "The largest category is" in alerts[0].text


def test_a_callback_that_raises_does_not_stop_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda reported: raised.append(reported.exc_type))

    def callback(alert: plimsoll.MemoryAlert) -> None:
        raise ZeroDivisionError(alert.id)

    kept = []
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=1, on_alert=callback
    ) as monitor:
        for _ in range(40):
            kept.append(torch.zeros(1 << 20))
            monitor.step()
    assert raised == [ZeroDivisionError] * monitor.alerts
    assert raised


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path / "file"), interval=1) as monitor:
        train(monitor, 3)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("plimsoll: text log: ")


def test_the_places_of_its_files_are_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plimsoll.TrainingMonitor(output_dir=tmp_path, interval=1, tensorboard=True) as monitor:
        train(monitor, 3)
    log, folder = monitor.text_log_path, tmp_path / "tensorboard"
    assert capsys.readouterr().err == f"plimsoll: samples are written to {log} and {folder}\n"
    with plimsoll.TrainingMonitor(output_dir=tmp_path, text_log=False) as monitor:
        train(monitor, 1)
    assert capsys.readouterr().err == ""


def test_off_there_is_no_hook_no_thread_and_no_file(tmp_path: Path) -> None:
    threads = threading.active_count()
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), enabled=False) as monitor:
        train(monitor, 3)
    assert attachment.attached() is None
    assert not _record.is_watching()
    assert not list(tmp_path.iterdir())
    assert threading.active_count() == threads
    assert (monitor.samples, monitor.text_log_path) == (0, "")


def test_it_records_a_trace_too_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.plim"
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), record=str(path)) as monitor:
        train(monitor, 2)
    trace = plimsoll.open(path)
    assert any(row["key"].startswith("aten::") for row in trace.tables["by_operator"])


def test_profile_tensors_alone_writes_log_and_tensorboard(tmp_path: Path) -> None:
    with plimsoll.TrainingMonitor(
        {"profile_tensors": True}, output_dir=str(tmp_path), interval=1
    ) as monitor:
        train(monitor, 2)
    assert Path(monitor.text_log_path).parent == tmp_path / "profiles"
    assert Path(monitor.event_file_path).parent == tmp_path / "tensorboard"
    assert b"TensorProfiling/Tensor_Count/total" in Path(monitor.event_file_path).read_bytes()


def test_an_interval_of_0_takes_samples_in_phases_only(tmp_path: Path) -> None:
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=0, phases="3-6:2") as monitor:
        train(monitor, 9)
    assert monitor.samples == 1  # iteration 4


def test_snapshot_at_records_an_iteration_whole(tmp_path: Path) -> None:
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), snapshot_at=[2], text_log=False
    ) as monitor:
        train(monitor, 5)
    (path,) = tmp_path.iterdir()
    assert path.name == "memory_snapshot_iter2.plim"
    trace = plimsoll.open(path)
    assert any(row["key"].startswith("aten::") for row in trace.tables["by_operator"])
    assert any("test_training_monitor.py" in str(row["key"]) for row in trace.tables["by_line"])


def test_after_a_snapshot_the_hooks_see_as_little_as_before(tmp_path: Path) -> None:
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), snapshot_at=[2], interval=100, tensorboard=False
    ) as monitor:
        modes = []
        for _ in range(4):
            train(monitor, 1)
            attached = attachment.attached()
            assert isinstance(attached, attachment.LibtorchAttachment)
            modes.append(attached._mode)
    assert modes == ["watch", "full", "watch", "watch"]


def test_an_overlapping_recording_keeps_its_options(tmp_path: Path) -> None:
    plimsoll.MemoryMonitor.get_gpu_memory_mb()  # starts the watch
    with plimsoll.record(tmp_path / "whole.plim"):
        with plimsoll.record(tmp_path / "part.plim", mode="lite"):
            torch.rand(10)
        torch.rand(10_000).exp()
    rows = plimsoll.open(tmp_path / "whole.plim").tables["by_operator"]
    assert any(row["key"] == "aten::exp" for row in rows)


@pytest.mark.parametrize("iteration", [2**62, 2**70, -(2**70)])
def test_an_iteration_that_no_log_can_hold_is_counted(tmp_path: Path, iteration: int) -> None:
    with plimsoll.TrainingMonitor(output_dir=tmp_path, interval=1, text_log=True) as monitor:
        monitor.step(iteration)
        monitor.step()
        path = Path(monitor.text_log_path)
    log = path.read_text()
    assert "Iteration 0" in log
    assert "Iteration 1" in log


def test_steps_of_the_user_stay_the_only_ones_when_the_hooks_see_more(tmp_path: Path) -> None:
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def trained() -> None:
        net(torch.rand(2, 4)).sum().backward()
        optimizer.step()

    with plimsoll.record(tmp_path / "a.plim", mode="lite"):
        trained()
        plimsoll.step()
        with plimsoll.record(tmp_path / "b.plim"):
            trained()
        plimsoll.step()
    assert len(plimsoll.open(tmp_path / "a.plim").tables["steps"]) == 2


def test_an_error_with_any_text_is_the_one_that_is_raised(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="out of memory"),
        plimsoll.TrainingMonitor(output_dir=str(tmp_path)),
    ):
        raise RuntimeError("out of memory: \udcff")


def test_snapshot_at_saves_pytorchs_snapshot_on_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dumped: list[str] = []

    def dump(filename: str) -> None:
        dumped.append(filename)
        raise RuntimeError("no memory for it")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", dump)
    snapshots = Snapshots("none")
    snapshots.begin(str(tmp_path / "memory_snapshot_iter7.plim"))
    snapshots.end()
    assert dumped == [str(tmp_path / "memory_snapshot_iter7.pickle")]
    assert capsys.readouterr().err == "plimsoll: snapshot: no memory for it\n"


FAIL = """
import atexit, torch, plimsoll
atexit.register(print, "saved the model")
kept = []
with plimsoll.TrainingMonitor(output_dir=".", interval=1, fail_on_alert=True) as monitor:
    for i in range({steps}):
        kept.append(torch.zeros(1 << 20))
        monitor.step()
print("trained")
"""


@pytest.mark.parametrize(("steps", "status"), [(2, 0), (40, 1)])
@pytest.mark.slow
def test_an_alert_fails_the_run_at_its_end_if_asked(
    tmp_path: Path, steps: int, status: int
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FAIL.format(steps=steps)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == status, ran.stderr
    assert "trained\n" in ran.stdout


def test_a_wrong_option_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(plimsoll.InvalidArgumentError, match="did you mean 'interval'"):
        plimsoll.TrainingMonitor(intervall=5)


def test_an_interval_of_zero_without_phases_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plimsoll.TrainingMonitor(interval=0, output_dir=tmp_path).close()
    message = "plimsoll: interval is 0 and there are no phases: no iteration is sampled\n"
    assert capsys.readouterr().err == message
    plimsoll.TrainingMonitor(
        interval=0, phases="0-5:1", output_dir=tmp_path, text_log=False
    ).close()
    plimsoll.TrainingMonitor(interval=0, enabled=False).close()
    assert capsys.readouterr().err == ""
