"""Without the CUDA adapter, CUDA is recorded from torch's own history, in the same report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
KINDS = ("parameter", "gradient", "optimizer_state", "buffer", "input")


@pytest.fixture
def run(fake, cuda, device, tmp_path):
    def run(case, status=0):
        words = [str(HERE / "without_adapter.py"), case, fake._name, str(device), "run.plim"]
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == status, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1]), ran.stderr

    return run


def opened(path, **question):
    import plimsoll

    return plimsoll.open(path, device="cuda:0", **question)


def diagnostics(trace):
    return {each["name"]: each for each in trace.report["source"]["diagnostics"]}


def by(trace, table):
    return {each["key"]: each["bytes"] for each in trace.tables[f"by_{table}"]}


def test_one_report_has_steps_layers_phases_and_categories(run, tmp_path):
    reported, errors = run("train")
    assert errors == ""
    assert [each[0] for each in reported["calls"]] == ["all", None]
    assert not list(tmp_path.glob("*.pickle"))
    trace = opened(tmp_path / "run.plim", at="end")
    assert trace.report["source"]["format"] == "plimsoll"
    categories = by(trace, "category")
    for kind in KINDS:
        assert categories.get(kind) == reported[kind], kind
    (row,) = [each for each in trace.devices if each["device"] == 0]
    assert sum(categories.values()) == row["requested_active"]["end_bytes"]
    assert row["allocated_bytes_end"] == reported["allocated"]
    assert row["reserved"]["end_bytes"] == reported["reserved"]
    steps = [each for each in trace.tables["steps"] if each["is_complete"]]
    assert [each["step"] for each in steps] == [1, 2, 3]
    for step in steps:
        assert sum(each["end_bytes"] for each in step["categories"]) == step["end_bytes"]
        kinds = {each["category"]: each["end_bytes"] for each in step["categories"]}
        assert kinds["parameter"] == reported["parameter"]
    assert "Net.blocks.0" in by(opened(tmp_path / "run.plim", at="peak"), "layer")
    known = diagnostics(trace)
    assert "from the time" in known["torch_history"]["example"]
    assert "history_unattributed" not in known


def test_what_happens_within_operators_and_in_backward_is_attributed(run, tmp_path):
    run("train")
    trace = opened(tmp_path / "run.plim", at="peak")
    phases = {each["key"] for each in trace.tables["by_phase"]}
    assert phases & {"forward", "backward", "optimizer"}
    operators = by(trace, "operator")
    assert any(each.startswith("aten::") for each in operators), operators


def test_gradients_belong_to_the_layer_of_the_forward(run, tmp_path):
    reported, _ = run("train")
    layers = by(opened(tmp_path / "run.plim", at="end"), "layer")
    blocks = sum(layers.get(f"Net.blocks.{each}", 0) for each in range(3))
    assert blocks == reported["parameter"] + reported["gradient"]


def test_with_the_cpu_adapter_layers_and_phases_come_from_its_ranges(run, tmp_path):
    reported, errors = run("cpu_adapter")
    assert "torch's own history" in errors
    trace = opened(tmp_path / "run.plim", at="end")
    categories = by(trace, "category")
    for kind in ("parameter", "gradient", "optimizer_state", "buffer"):
        assert categories.get(kind) == reported[kind], kind
    layers = by(opened(tmp_path / "run.plim", at="peak"), "layer")
    assert any(each.startswith("Net.blocks.") for each in layers), layers
    assert "history_without_operators" in diagnostics(trace)


def test_what_lived_before_is_met_with_its_category(run, tmp_path):
    reported, _ = run("before")
    trace = opened(tmp_path / "run.plim", at="end")
    categories = by(trace, "category")
    assert categories["parameter"] == reported["parameter"]
    assert categories["buffer"] == reported["buffer"]


def test_at_an_out_of_memory_the_ten_lines_and_the_file_have_it(run, tmp_path):
    reported, errors = run("oom")
    assert "out of memory on cuda:0" in errors
    assert "filled with" in errors
    assert "parameter" in errors.split("filled with")[1].splitlines()[0]
    assert "went on" in errors
    assert reported["snapshots"] == 2
    (device,) = [each for each in opened(tmp_path / "run.plim").devices if each["device"] == 0]
    assert device["oom_details"][0]["requested_bytes"] == 256 << 20


def test_a_killed_process_leaves_what_was_attached(run, tmp_path):
    reported, _ = run("killed", status=-9)
    assert reported["snapshots"] >= 1
    trace = opened(tmp_path / "run.plim", at="end")
    known = diagnostics(trace)
    assert "torch_history" in known
    assert "file_cut" in known
    assert by(trace, "category")["parameter"] > 0


def test_a_history_of_the_programs_own_is_read_and_left_alone(run, tmp_path):
    reported, _ = run("theirs")
    assert len(reported["calls"]) == 1
    assert "torch_history" in diagnostics(opened(tmp_path / "run.plim"))


def test_a_history_that_the_program_took_over_stays_on(run, tmp_path):
    reported, _ = run("taken")
    assert [each[0] for each in reported["calls"]] == ["all", "all"]
    assert "torch_history" in diagnostics(opened(tmp_path / "run.plim"))


def test_a_report_of_a_running_recording_has_it_too(run):
    reported, _ = run("report")
    assert reported["snapshots"] == 2
