"""Out-of-memory errors of an H100 (../shared/samples/gpu): cause, estimate and advice."""

import functools
import json
import subprocess

import pytest

MIB = 1 << 20
GIB = 1 << 30
LLAMA = ["recordings/llama_1b_oom.plim", "snapshots/llama_1b_out_of_memory.pickle"]


@pytest.fixture(scope="module")
def reported(samples, plimsoll_command):
    """The last failure on the GPU and the first finding of a sample, by its path."""

    @functools.cache
    def report(name):
        path = samples / "gpu" / name
        if not path.is_file():
            pytest.skip(f"no sample {name}")
        words = [plimsoll_command, "report", str(path), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        (device,) = [each for each in answer["devices"] if each["device"] == 0]
        return device["oom_details"][-1], answer["findings"][0]

    return report


@pytest.mark.parametrize("name", LLAMA)
def test_a_batch_that_leaves_too_little_room_is_not_fragmentation(reported, name):
    details, finding = reported(name)
    assert details["cause"] == "too_big"
    assert "because the batch leaves too little room" in finding["title"]
    # The measured peak on the same card, where the step succeeds with expandable_segments.
    assert details["need"]["bytes"] == pytest.approx(82_633_056_768, rel=0.001)
    assert details["need"]["basis"] == "earlier_step"
    assert details["need"]["ratio"] == 2
    assert any("which is just enough" in step["text"] for step in finding["steps"])


def test_the_largest_batch_and_the_checkpoints_of_the_llama_are_computed(reported):
    _, finding = reported(LLAMA[0])
    batch, checkpoints, _ = (step["text"] for step in finding["steps"])
    assert batch == "Use a batch of at most 15 instead of 16."
    assert checkpoints.startswith("Run LlamaForCausalLM.model.layers.0…21 through")


def test_the_largest_part_of_the_batch_is_stated_for_a_snapshot(reported):
    assert [step["text"] for step in reported(LLAMA[1])[1]["steps"]] == [
        "Use at most 96% of this batch.",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which is just enough: it leaves 1.5 "
        "GiB.",
    ]


def test_scores_that_grow_with_the_square_are_the_cause_not_the_limit(reported):
    details, finding = reported("recordings/oom_activations.plim")
    assert details["cause"] == "one_large_request"
    assert "ooms.py:45 (Layer.forward) requested 2.0 GiB" in finding["title"]
    assert details["need"]["bytes"] > 8 * GIB  # the scores of four layers
    assert details["need"]["available_bytes"] == 1_258_291_200
    text = " ".join(finding["evidence"])
    assert "input [4, 4096, 256] instead of [4, 400, 256]" in text
    assert "it grows quadratically" in text
    assert all("raction" not in step["text"] for step in finding["steps"])


def test_fragmentation_stays_the_cause_where_the_step_would_have_fitted(reported):
    details, finding = reported("recordings/oom_fragmentation.plim")
    assert details["cause"] == "fragmentation"
    assert "701.0 MiB were free in pieces that could not serve 33.0 MiB" in finding["title"]
    assert details["need"]["bytes"] < details["need"]["available_bytes"]


def test_the_first_step_of_adam_is_named(reported):
    details, finding = reported("recordings/oom_first_step.plim")
    assert "in the optimizer's first step" in finding["title"]
    need = details["need"]
    assert need["basis"] == "optimizer_state"
    # The step needs two states of 134,283,264 bytes each; a block of 16 MiB exists already.
    assert need["state_bytes"] == 2 * 134_283_264 - 16 * MIB
    assert need["scratch_bytes"] == 134_283_264


def test_a_limit_that_no_record_shows_is_not_stated(reported):
    for name in LLAMA:
        details, finding = reported(name)
        assert details["is_limited"] is False
        assert "set_per_process_memory_fraction" not in " ".join(finding["evidence"])
