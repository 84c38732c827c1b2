"""What a LibTorch program has without a change: steps, categories, its process, advice in C++."""

import json
import re
import subprocess

import pytest

STEPS = 20
PARAMETERS = 4 * (64 * 256 + 256 + 256 * 8 + 8)


def must_run(*words) -> str:
    ran = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def report(libtorch_programs, plimsoll_command, tmp_path):
    def record(how: str) -> dict:
        path, program = tmp_path / "run.plim", libtorch_programs / "steps_program"
        if how == "named":
            must_run(program, how, path)
        else:
            must_run(plimsoll_command, "run", "--force", "-o", path, "--", program, how)
        return json.loads(must_run(plimsoll_command, "report", "--json", path))

    return record


def complete(report: dict) -> list[dict]:
    return [row for row in report["tables"]["steps"] if row["is_complete"]]


def test_optimizers_end_steps_and_their_memory_has_its_category(report):
    recorded = report("plain")
    assert len(complete(recorded)) == STEPS
    live = {row["category"]: row["end_bytes"] for row in complete(recorded)[9]["categories"]}
    assert live["parameter"] == live["gradient"] == PARAMETERS
    assert live["optimizer_state"] == 2 * PARAMETERS


@pytest.mark.parametrize(("how", "steps"), [("own", STEPS // 2), ("two", STEPS)])
def test_a_step_ends_once(report, how, steps):
    assert len(complete(report(how))) == steps


def test_the_state_of_an_optimizer_has_the_layer_of_its_parameter(report):
    rows = {row["layer"]: row["own"] for row in report("named")["tables"]["layers"]}
    for layer, parameters in (("Net.first", 65 * 256), ("Net.second", 257 * 8)):
        assert rows[layer]["optimizer_state_bytes"] == 2 * 4 * parameters


def test_the_process_is_in_the_report_and_its_growth_is_a_finding(report):
    (cpu,) = report("plain")["devices"]
    assert 0 < cpu["process_start_bytes"] <= cpu["process_highest_bytes"]
    assert 0 < cpu["process_warm_bytes"] <= cpu["process_highest_bytes"]
    (finding,) = [
        each for each in report("leak")["findings"] if each["id"] == "memory_outside_tensors"
    ]
    assert finding["severity"] == "warning"
    text = " ".join([*finding["evidence"], *(step["text"] for step in finding["steps"])])
    assert "heaptrack" in text
    assert not re.search(r"Python|NumPy|memray|torch\.|DataLoader", text)
