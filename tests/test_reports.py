"""Programs and files made after public bug reports: what `plimsoll report` finds first.

`samples/reports/*/expected.md` states the facts about each.
"""

import json
import os
import subprocess
import sys

import pytest

MIB = 1 << 20


@pytest.fixture(scope="session")
def reports(samples):
    return samples / "reports"


def ran(*words, cwd, check=True):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PLIMSOLL_PYTHON": sys.executable}
    return subprocess.run(
        [*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=check
    )


@pytest.fixture
def report_of_program(plimsoll_command, reports, tmp_path):
    def report(case):
        trace = tmp_path / "run.plim"
        ran(plimsoll_command, "run", "-o", trace, reports / case / "case.py", cwd=tmp_path)
        return json.loads(ran(plimsoll_command, "report", "--json", trace, cwd=tmp_path).stdout)

    return report


def test_a_snapshot_of_an_intel_gpu(plimsoll_command, reports, tmp_path):
    ran(sys.executable, reports / "03-xpu-snapshot/make_file.py", cwd=tmp_path)
    done = ran(plimsoll_command, "report", "--json", "xpu.pickle", cwd=tmp_path)
    first = json.loads(done.stdout)["findings"][0]
    assert first["title"].startswith("xpu:0 ran out of memory through fragmentation: 5.6 GiB")
    assert "train.py:13" in " ".join(first["evidence"])
    assert first["next_step"].startswith("Set PYTORCH_ALLOC_CONF=expandable_segments:True")
    assert "cuda" not in json.dumps(first).lower()


def test_a_database_instead_of_a_snapshot(plimsoll_command, reports, tmp_path):
    ran(sys.executable, reports / "07-sqlite-dump/make_file.py", cwd=tmp_path)
    done = ran(plimsoll_command, "report", "snapshot.db", cwd=tmp_path, check=False)
    assert done.returncode == 3
    assert "SQLite database" in done.stderr
    assert "torch.cuda.memory._dump_snapshot(path)" in done.stderr


def report_of_file(plimsoll_command, reports, tmp_path, case, file, *words):
    ran(sys.executable, reports / case / "make_file.py", *words, cwd=tmp_path)
    return json.loads(ran(plimsoll_command, "report", "--json", file, cwd=tmp_path).stdout)


def test_gathers_that_wait_for_a_stream(plimsoll_command, reports, tmp_path):
    case = (plimsoll_command, reports, tmp_path, "30-gathers-wait-for-a-stream")
    first = report_of_file(*case, "ahead.pickle")["findings"][0]
    assert first["id"] == "freed_but_pending"
    assert "10.0 GiB of 21.8 GiB" in first["title"]
    assert "train.py:71" in " ".join(first["evidence"])
    assert first["next_step"].startswith("Set TORCH_NCCL_AVOID_RECORD_STREAMS=1")
    assert first["saving_bytes"] == pytest.approx(7.8 * 1024 * MIB, rel=0.01)
    avoided = report_of_file(*case, "avoid.pickle", "avoid")
    assert "freed_but_pending" not in {each["id"] for each in avoided["findings"]}


def test_a_retry_inside_except(plimsoll_command, reports, tmp_path):
    case = (plimsoll_command, reports, tmp_path, "33-retry-inside-except")
    first = report_of_file(*case, "retry.pickle")["findings"][0]
    assert "in a retry: 19.0 GiB of the 23.5 GiB live" in first["title"]
    assert "train.py:52" in " ".join(first["evidence"])
    assert first["next_step"].startswith("Retry after the except block")
    assert "batch" not in json.dumps(first["steps"])
    after = report_of_file(*case, "after.pickle", "after")["findings"][0]
    assert "retry" not in after["title"]


def test_blocks_of_a_side_stream(plimsoll_command, reports, tmp_path):
    case = (plimsoll_command, reports, tmp_path, "37-side-stream-cache")
    first = report_of_file(*case, "side.pickle")["findings"][0]
    assert first["title"].endswith("20.0 GiB are cached blocks of other streams")
    assert "wrapper.py:25" in first["next_step"]
    assert [each["saving_bytes"] for each in first["steps"]] == [20 * 1024 * MIB] * 2
    assert "empty_cache() after" in first["steps"][1]["text"]
    current = report_of_file(*case, "current.pickle", "current")
    assert "stranded_memory" not in {each["id"] for each in current["findings"]}


@pytest.mark.slow
def test_a_loss_whose_chunks_need_the_gradient_of_the_logits(report_of_program):
    first = report_of_program("34-grpo-log-softmax")["findings"][0]
    assert "80.0 MiB of 142.7 MiB" in first["title"]
    assert "chunks" in first["next_step"]
    assert 32 * MIB <= first["saving_bytes"] <= 40 * MIB


@pytest.mark.slow
def test_a_hook_that_is_never_removed(report_of_program):
    first = report_of_program("45-hooks-never-removed")["findings"][0]
    assert first["id"] == "memory_growth"
    assert "Call remove() on the handle" in first["next_step"]
    assert "detach" not in json.dumps(first["steps"])


@pytest.mark.slow
def test_inner_steps_with_create_graph(report_of_program):
    first = report_of_program("46-inner-steps-create-graph")["findings"][0]
    assert "case.py:10" in " ".join(first["evidence"])
    assert first["next_step"].startswith("Pass create_graph=True at ")
    assert "case.py:11 (adapt) only if" in first["next_step"]
    assert "detach" not in json.dumps(first["steps"])
    assert 25 * MIB < first["saving_bytes"] < 34.5 * MIB


@pytest.mark.slow
def test_a_cycle_that_the_collector_frees(report_of_program):
    first = report_of_program("12-reentrant-checkpoint-cycle")["findings"][0]
    assert first["id"] == "garbage_in_cycles"
    text = " ".join(first["evidence"])
    assert all(f"case.py:{line}" in first["title"] + text for line in (11, 13, 22))
    without_cycle, with_collector = first["steps"]
    assert "use_reentrant=False" in without_cycle["text"]
    assert "gc.collect()" in with_collector["text"]
    assert "epoch" not in first["title"] + text + without_cycle["text"]
    assert first["saving_bytes"] > 200 * MIB


@pytest.mark.slow
def test_an_evaluation_that_concatenates(report_of_program):
    first = report_of_program("16-evaluate-concatenates")["findings"][0]
    assert first["id"] == "peak_outside_training"
    text = first["title"] + " ".join(first["evidence"]) + first["next_step"]
    assert "case.py:17 (evaluate): 239.0 MiB" in text
    assert "119 times up to 120.0 MiB" in text
    assert "A smaller batch changes nothing" in first["next_step"]
    assert "a smaller batch for evaluation" not in text
    assert first["saving_bytes"] == pytest.approx(224.1 * MIB, rel=0.01)


@pytest.mark.slow
def test_a_bounded_buffer_that_retains_every_graph(report_of_program):
    first = report_of_program("18-replay-keeps-lstm-graph")["findings"][0]
    assert first["id"] == "memory_growth"
    assert "case.py:11" in first["title"] + " ".join(first["evidence"])
    assert "detach" in first["next_step"]


@pytest.mark.slow
def test_a_process_that_grows_outside_its_tensors(report_of_program):
    first = report_of_program("19-onednn-variable-shapes")["findings"][0]
    assert first["id"] == "memory_outside_tensors"
    assert "memray" in first["next_step"]


@pytest.mark.slow
def test_an_inference_that_is_compiled_is_right(report_of_program):
    report = report_of_program("23-compile-nested-disable")
    assert report["findings"] == []
    (device,) = report["devices"]
    assert device["requested_allocated"]["peak_bytes"] == pytest.approx(4.1 * MIB, rel=0.01)
