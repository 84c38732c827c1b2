"""Source text and modules, from the recording to the comparison of two recordings."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
import torch

import plimsoll

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.drop = torch.nn.Dropout(0.0)
    def forward(self, x):
        scores =  torch.ones(64, 256)   # kept
        return self.first(x).sum() + scores.sum()

def train(steps):
    net = Net()
    kept = []
    for _ in range(steps):
        kept.append(torch.zeros(64, 64))
        net(torch.randn(8, 64)).backward()
    return net, kept
"""


@pytest.fixture
def record(tmp_path):
    """Record the program with this source; return its digest."""
    names = iter(range(100))

    def record(source, during=lambda path: None, end=True, **options):
        folder = tmp_path / str(next(names))
        folder.mkdir()
        path = folder / "program.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("recorded_program", path)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        recording = plimsoll.record(folder / "run.plim", **options)
        with recording:
            live = program.train(4)
            during(path)
            recording.flush()
            made = folder / "running.json"
            plimsoll.open(folder / "run.plim").export(made, "digest")
        del live
        if end:
            made = folder / "ended.json"
            plimsoll.open(folder / "run.plim").export(made, "digest")
        return made

    return record


def keys_of(digest, function):
    keys = json.loads(digest.read_text())["keys"]
    return [key for key in keys if key["function"].endswith(function)]


def lines_of(digest, function):
    return {(key["text"], key["offset"]) for key in keys_of(digest, function)}


@pytest.mark.parametrize("adapter", ["libtorch", "python"])
def test_lines_have_their_text_and_modules_their_class(record, adapter):
    digest = record(PROGRAM, adapter=adapter)
    assert ("kept.append(torch.zeros(64, 64))", 4) in lines_of(digest, "train")
    texts = {text for text, _ in lines_of(digest, "forward")}
    assert "scores = torch.ones(64, 256) # kept" in texts
    modules = {each["path"]: each for each in json.loads(digest.read_text())["modules"]}
    assert modules["Net.drop"]["type"] == "Dropout"
    assert modules["Net.first"]["type"] == "Linear"
    assert modules["Net.first"]["parameter_bytes"] == 4 * (64 * 64 + 64)
    assert modules["Net"]["parameter_bytes"] == 0


@pytest.mark.parametrize("adapter", ["libtorch", "python"])
def test_modules_say_what_is_set_and_whether_they_can_be_called(adapter, tmp_path):
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.off = torch.nn.Linear(2, 2).eval()
            self.on = torch.nn.Linear(2, 2)
            self.on.gradient_checkpointing = True
            self.list = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.ReLU())])

        def forward(self, x):
            return self.list[0](self.on(self.off(x)))

    path = tmp_path / "run.plim"
    net = Held()
    with plimsoll.record(path, adapter=adapter):
        net(torch.ones(1, 2))
    text = subprocess.run(
        [sys.executable, "-m", "plimsoll", "dump", path], check=True, capture_output=True, text=True
    ).stdout
    names = dict(re.findall(r'^name id=(\d+) text="(.*)"$', text, re.M))
    found = re.findall(r"^module path=(\d+) \S+ \S+(?: state=(\d+))?$", text, re.M)
    states = {names[path].removeprefix("Held."): int(state or 0) for path, state in found}
    assert states["off"] == 1 and states["on"] == 2 and states["list"] == 4
    assert states["list.0"] == states["list.0.0"] == 0


MOVED = PROGRAM.replace("class Net", "SIZE = 1\n\n\nclass Net").replace(
    "    kept = []\n    for _ in range(steps):\n",
    '    """Train."""\n    kept = []\n    steps += 0\n    for _ in range(steps):\n',
)
LARGER = MOVED.replace("torch.zeros(64, 64)", "torch.zeros(64, 128)")


def test_a_moved_line_is_the_same_and_a_changed_one_is_named(record):
    before = record(PROGRAM)
    moved = plimsoll.diff(before, record(MOVED)).report
    assert moved["findings"] == []
    assert [point["rows"] for point in moved["points"]] == [[]] * len(moved["points"])
    larger = plimsoll.diff(before, record(LARGER)).report
    (row,) = next(point for point in larger["points"] if point["name"] == "end")["rows"]
    assert (row["pairing"], row["difference_bytes"]) == ("text", 4 * 64 * 64 * 4)
    assert "program.py" in larger["findings"][0]["evidence"][0]


def test_without_text_recordings_compare_by_hash(record):
    before = record(PROGRAM, source_text=False)
    texts = [key["text"] for key in keys_of(before, "train")]
    assert texts
    assert all(text.startswith("#") and len(text) == 17 for text in texts)
    assert plimsoll.diff(before, record(MOVED, source_text=False)).report["findings"] == []


def test_a_source_that_changes_and_a_program_that_dies_leave_offsets(record):
    def edit(path):
        path.write_text("import torch\n" + path.read_text())
        os.utime(path)

    changed = record(PROGRAM, during=edit)
    killed = record(PROGRAM, end=False)
    for digest in (changed, killed):
        assert ("", 4) in lines_of(digest, "train")
        assert {text for text, _ in lines_of(digest, "forward")} == {""}
    findings = plimsoll.diff(killed, record(PROGRAM, end=False)).report["findings"]
    assert {finding["id"] for finding in findings} == {"recording_incomplete"}
