"""The text log and the alerts in Python, and the command that reads the log."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import plimsoll
from plimsoll import _record

MB = 2**20


def share(name: str, megabytes: int) -> _record.MemoryShare:
    made = _record.MemoryShare()
    made.name, made.size_bytes, made.count = name, megabytes * MB, 10
    return made


def sample(iteration: int, kept_megabytes: int) -> _record.MemorySample:
    device = _record.DeviceMemory()
    device.name = "cuda:0"
    device.live_bytes, device.live_count = (3000 + kept_megabytes) * MB, 20
    device.categories = [share("activation", 1000 + kept_megabytes), share("parameter", 2000)]
    device.dtypes = [share("float32", 3000 + kept_megabytes)]
    device.layers = [share("unet, 1", 3000 + kept_megabytes)]
    device.allocated_bytes = device.live_bytes
    device.reserved_bytes = device.peak_bytes = device.live_bytes + 500 * MB
    made = _record.MemorySample()
    made.time_ns, made.iteration, made.loss = 1_795_192_813 * 10**9, iteration, 0.5
    made.large_tensor_bytes = 100 * MB
    made.devices = [device]
    return made


def summary_of(command: str, path: str) -> dict:
    ran = subprocess.run([command, "analyze", path, "--json"], capture_output=True, check=True)
    return json.loads(ran.stdout)


def test_the_command_finds_in_the_log_what_the_run_printed(plimsoll_command, tmp_path):
    log = _record.TextLog(str(tmp_path))
    detector = _record.Detector()
    alerts = []
    for i in range(40):
        taken = sample(i * 100, 50 * i)
        assert log.write(taken) is None
        alerts += detector.observe(taken)
    assert Path(log.path).parent == tmp_path / "profiles"
    (finding,) = detector.findings()
    assert {alert.id for alert in alerts} == {"activations_stay"} == {finding.id}
    assert str(finding).startswith("WARNING Activations on cuda:0 keep growing: ")
    summary = summary_of(plimsoll_command, log.path)
    assert summary["source"]["unread_lines"] == 0
    assert summary["findings"] == [
        {
            "id": finding.id,
            "severity": finding.severity,
            "device": finding.device,
            "subject": finding.subject,
            "iteration": finding.iteration,
            "title": finding.title,
            "evidence": [line.replace("unet, 1", "unet; 1") for line in finding.evidence],
            "next_step": finding.next_step,
            "saving_bytes": finding.saving_bytes,
            "steps": [
                {
                    "text": step.text,
                    "saving_bytes": step.saving_bytes,
                    "is_upper_bound": step.is_upper_bound,
                }
                for step in finding.steps
            ],
            "holders": [],
            "is_fact": False,
        }
    ]


def test_a_sample_has_every_field_in_python():
    made = _record.MemorySample()
    made.batch_size, made.failed_batch_size = 32, 48
    made.ran_out, made.ran_out_of = True, "cuda:0"
    device = _record.DeviceMemory()
    device.at_peak = [share("parameter", 40)]
    made.devices = [device]
    assert (made.batch_size, made.failed_batch_size, made.ran_out) == (32, 48, True)
    assert made.devices[0].at_peak[0].size_bytes == 40 * MB
    assert "| batch 32 | out of memory of cuda:0 ===" in _record.text_log_snapshot(made)


KILLED = """
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[2]))
from test_logs import _record, sample

log, events = _record.TextLog(sys.argv[1]), _record.EventFile(sys.argv[1])
for i in range(10**6):
    log.write(sample(i, 0))
    events.write(i, i, _record.scalars_of(sample(i, 0)))
    if i == 49:
        os.kill(os.getpid(), 9)
"""


def test_what_a_killed_run_wrote_is_read_to_its_end(plimsoll_command, tmp_path):
    words = [sys.executable, "-c", KILLED, str(tmp_path), __file__]
    assert subprocess.run(words, check=False).returncode == -9
    (log,) = (tmp_path / "profiles").iterdir()
    source = summary_of(plimsoll_command, str(log))["source"]
    assert source["snapshots"] == 50
    assert source["unread_lines"] == 0
    accumulator = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    accumulator.Reload()
    steps = [event.step for event in accumulator.Scalars("Memory/vram_reserved")]
    assert steps == list(range(50))


def test_thresholds_are_those_requested():
    def alerts(make_sample, **options):
        detector = _record.Detector(**options)
        return sum(len(detector.observe(make_sample(i))) for i in range(40))

    def growing(i):
        return sample(i, 50 * i)

    def nearly_full(i):
        made = sample(i, 0)
        device = made.devices[0]
        device.used_bytes, device.total_bytes = 95 * MB, 100 * MB
        made.devices = [device]
        return made

    assert alerts(growing, growth_percent=99) == 0
    assert alerts(growing) == alerts(growing, alert_every=2) == 2  # again when it has doubled
    assert alerts(nearly_full, alert_every=2) == 20
    assert alerts(nearly_full, alert_every=20) == 2


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        plimsoll.InputOutputError, match=r"cannot create the folder .*/file/profiles"
    ):
        _record.TextLog(str(tmp_path / "file"))


def test_a_full_disk_is_reported_once_and_training_continues(plimsoll_command, tmp_path):
    log = _record.TextLog(str(tmp_path))
    assert log.write(sample(0, 0)) is None
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(log.path) + 100, before[1]))
    try:
        trouble = log.write(sample(1, 0))
        assert log.write(sample(2, 0)) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert trouble == f"cannot write {log.path}: File too large"
    assert summary_of(plimsoll_command, log.path)["source"]["snapshots"] == 1
