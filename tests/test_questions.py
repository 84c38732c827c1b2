"""One opened recording answers a series of questions as if it had been opened for each of them."""

from __future__ import annotations

import functools
import pickle
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

import plimsoll

RECORDINGS = sorted((Path(__file__).parent / "compat").glob("*.plimsoll"))
SNAPSHOTS = (
    "by_hand_97_events.pickle",
    "two_gpus_expandable_no_trace.pickle",
    "xl_forward_4_devices.pickle",
)


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    for run in report["passes"]:
        del run["duration_ns"]
    return report


def questions(trace: plimsoll.Trace, seed: int, count: int) -> list[dict[str, Any]]:
    """Random questions, some of them impossible, some repeated."""
    source = random.Random(seed)
    longest = max((device["events"] for device in trace.devices), default=0)
    points = ["peak", "start", "end", "oom", "1ms", "20us", 0, max(longest - 1, 0), longest // 3]
    names = [plimsoll.trace.device_name(device) for device in trace.devices]
    return [
        {
            "device": source.choice([None, None, *names]),
            "at": source.choice([None, *points]),
            "top": source.choice([20, 20, 3]),
        }
        for _ in range(count)
    ]


def answer(ask: Any, question: dict[str, Any]) -> Any:
    try:
        return without_times(ask(**question).report)
    except plimsoll.InvalidArgumentError as error:
        return str(error).split(": ")[-1]


def compare(path: Path) -> None:
    opened = plimsoll.open(path)
    for question in questions(opened, seed=1, count=14):
        fresh = answer(functools.partial(plimsoll.open, path), question)
        assert answer(opened.ask, question) == fresh, question


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_an_answer_does_not_depend_on_earlier_questions(path: Path) -> None:
    compare(path)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_answer_does_not_depend_on_earlier_questions(samples: Path, name: str) -> None:
    compare(samples / "snapshots" / name)


def test_questions_leave_the_trace_as_it_was() -> None:
    opened = plimsoll.open(RECORDINGS[-1])
    before = opened.summary()
    other = opened.ask(at="end", top=3)
    assert opened.summary() == before
    assert other.tables["points_in_time"][0]["name"] == "end"
    assert other.events is opened.events  # read once, shared


def test_an_impossible_question_is_an_error_and_the_trace_stays_usable() -> None:
    opened = plimsoll.open(RECORDINGS[-1])
    with pytest.raises(plimsoll.InvalidArgumentError, match="cuda:7"):
        opened.ask(device="cuda:7")
    with pytest.raises(plimsoll.InvalidArgumentError):
        opened.ask(at=10**9)
    assert opened.findings is not None


def test_tables_need_no_analysis() -> None:
    stages: list[str] = []
    opened = plimsoll.open(RECORDINGS[-1], progress=lambda stage, done, total: stages.append(stage))
    assert len(opened.events) > 0
    assert "composition" not in stages


def test_a_device_without_events_says_which_have_some(plimsoll_command, tmp_path):
    frames = [{"filename": "a.py", "line": 1, "name": "f"}]
    event = {"action": "alloc", "size": 512, "stream": 0, "frames": frames}
    events = [event | {"addr": 512 * i, "time_us": i} for i in range(9)]
    snapshot = {"segments": [], "device_traces": [events, [], []]}
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(snapshot))

    def said(*words):
        command = [plimsoll_command, "report", "a.pickle", "--device", "1", *words]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return " ".join((ran.stdout + ran.stderr).split())

    assert "no memory events and no memory of cuda:1, but of cuda:0." in said()
    at_event = said("--at", "5")
    assert "cuda:1 has no events to choose a point in time from" in at_event
    assert "those with events are cuda:0" in at_event
