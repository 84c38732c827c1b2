"""The generator's files are like PyTorch's, are consistent, and show what they claim."""

import io
import pickle
import pickletools
import subprocess

import pytest
from reference import shadow_replay
from reference import snapshot_sets as sets
from reference import snapshot_totals as totals

MIB = 2**20
PRESETS = [
    *("training", "random-free", "planted", "planted-2.11", "planted-jit", "healthy"),
    *("oom-large", "oom-too-big", "oom-growth", "churn", "settings-conflict"),
    *("empty", "wrapped", "wrapped-jit-2.11"),
]


@pytest.fixture(scope="session")
def loaded(generated):
    return {name: totals.load(path) for name, path in generated.items()}


def events_of(snapshot):
    return snapshot["device_traces"][0]


def actions(snapshot):
    return {event["action"] for event in events_of(snapshot)}


@pytest.mark.parametrize("name", PRESETS)
def test_trace_and_segments_agree(loaded, name):
    assert shadow_replay.complaints(loaded[name], 0) == []


@pytest.mark.parametrize("name", PRESETS)
def test_segments_agree_with_their_blocks(loaded, name):
    for segment in loaded[name]["segments"]:
        blocks = segment["blocks"]
        active = [block for block in blocks if block["state"] != "inactive"]
        allocated = [block for block in blocks if block["state"] == "active_allocated"]
        assert segment["total_size"] == sum(block["size"] for block in blocks)
        assert segment["active_size"] == sum(block["size"] for block in active)
        assert segment["allocated_size"] == sum(block["size"] for block in allocated)
        assert segment["requested_size"] == sum(block["requested_size"] for block in active)


IN_GATE = ("planted", "planted-jit", "planted-2.11", "empty")


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[] if each in IN_GATE else [pytest.mark.slow]) for each in PRESETS],
)
def test_python_dialect_is_what_cpython_writes(generated, name):
    data = generated[name].read_bytes()
    pickletools.dis(data, out=io.StringIO())
    assert data[1] == (2 if "jit" in name else 4)
    if "jit" not in name:
        assert pickle.dumps(pickle.loads(data), protocol=4) == data


def test_jit_dialect_gives_the_same(loaded):
    assert loaded["planted-jit"] == loaded["planted"]


def test_jit_dialect_uses_the_jit_picklers_opcodes(generated):
    opcodes = {
        opcode.name for opcode, _, _ in pickletools.genops(generated["planted-jit"].read_bytes())
    }
    assert {"BINUNICODE", "BINPUT", "LONG_BINPUT", "SETITEMS", "APPENDS"} <= opcodes
    assert not {"FRAME", "MEMOIZE", "SHORT_BINUNICODE", "SETITEM", "APPEND"} & opcodes


def test_keys_follow_the_torch_version(loaded):
    old = list(events_of(loaded["planted"])[0])
    new = list(events_of(loaded["planted-2.11"])[0])
    assert old == ["action", "addr", "size", "stream", "time_us", "frames"]
    assert new == [*old[:5], "compile_context", "user_metadata", "frames"]


def test_same_seed_same_bytes(snapshot_generator, tmp_path):
    written = []
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        path = tmp_path / name
        subprocess.run([snapshot_generator, "healthy", path, "--seed", seed], check=True)
        written.append(path.read_bytes())
    assert written[0] == written[1] != written[2]


def test_planted_fragmentation_would_fit_the_failed_request(loaded):
    snapshot = loaded["planted"]
    oom = events_of(snapshot)[-1]
    assert oom["action"] == "oom"
    assert oom["device_free"] < oom["size"]
    segments = sets.fragmentation(snapshot, 0)["segments"]
    assert max(segment["largest_gap_bytes"] for segment in segments) < oom["size"]
    stranded = [s for s in segments if s["free_bytes"] > 0.9 * s["size_bytes"] > 400 * MIB]
    assert all(len(segment["pins"]) < 5 for segment in stranded)
    assert sum(segment["free_bytes"] for segment in stranded) > 2 * oom["size"]


def test_planted_growth_keeps_one_buffer_a_step(loaded):
    snapshot = loaded["planted"]
    steps = [a for a in snapshot["external_annotations"] if a["name"].startswith("Optimizer.step#")]
    assert len(steps) == 2 * 16
    live = sets.by_line(sets.live_set(snapshot, 0, len(events_of(snapshot))).values())
    assert live["/home/ada/nanolm/train.py:91 train_step"] == (16 * 48 * MIB, 16)


def test_healthy_run_is_complete_and_level(loaded):
    device = totals.snapshot_totals(loaded["healthy"])[0]
    assert device["requested_allocated"]["baseline_bytes"] == 0
    assert device["frees_without_alloc"] == 0
    assert device["ooms"] == []
    live_at_step_end = [
        sum(block.size for block in sets.live_set(loaded["healthy"], 0, event).values())
        for event in step_ends(loaded["healthy"])
    ]
    assert len(set(live_at_step_end[1:])) == 1


def step_ends(snapshot):
    """Return the last event before each end of zero_grad."""
    times = [
        a["time_us"]
        for a in snapshot["external_annotations"]
        if a["stage"] == "END" and "zero_grad" in a["name"]
    ]
    return [max(i for i, e in enumerate(events_of(snapshot)) if e["time_us"] <= t) for t in times]


@pytest.mark.parametrize("name", ["oom-large", "oom-too-big", "oom-growth"])
def test_out_of_memory_ends_the_trace(loaded, name):
    oom = events_of(loaded[name])[-1]
    assert oom["action"] == "oom"
    assert oom["device_free"] < oom["size"]
    assert (oom["size"] > 24 * 1024 * MIB) == (name == "oom-large")


def test_wrapped_ring_begins_and_ends_in_the_middle(loaded):
    snapshot = loaded["wrapped"]
    device = totals.snapshot_totals(snapshot)[0]
    assert device["events"] == 10_000
    assert device["frees_without_alloc"] > 0
    assert events_of(snapshot)[0]["action"] == "free_completed"
    states = {block["state"] for segment in snapshot["segments"] for block in segment["blocks"]}
    assert "active_pending_free" in states


def test_empty_recording_has_blocks_and_nothing_else(loaded):
    snapshot = loaded["empty"]
    assert snapshot["device_traces"] == [[]]
    assert snapshot["external_annotations"] == []
    blocks = totals.blocks_of(snapshot["segments"])
    assert blocks
    assert all(block["frames"] == [] for block in blocks)


def test_settings_conflict_is_expandable_and_reported(loaded):
    snapshot = loaded["settings-conflict"]
    conf = "expandable_segments:True,max_split_size_mb:128"
    assert snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] == conf
    assert snapshot["allocator_settings"]["max_split_size"] == 128 * MIB
    assert all(segment["is_expandable"] for segment in snapshot["segments"])
    assert "segment_map" in actions(snapshot)


def test_churn_is_at_one_line(loaded):
    churn = sets.churn(loaded["churn"], 0, within=2)
    line = max(churn, key=lambda name: churn[name][0])
    assert line == "/home/ada/nanolm/model.py:57 apply_rotary"
    assert churn[line][0] == 8 * 400


def test_training_is_a_thousand_weights_and_backward_in_reverse(loaded):
    trace = events_of(loaded["training"])
    stacks = [len(event["frames"]) for event in trace]
    assert set(stacks) == {12}
    weights = [e for e in trace if e["action"] == "alloc"][3 : 3 + 1000]
    freed = {e["addr"] for e in trace if e["action"] == "free_requested"}
    assert not {e["addr"] for e in weights} & freed
