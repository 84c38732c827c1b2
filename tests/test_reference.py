"""The references, on snapshots small enough to check by hand, and compared with one another."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import random_snapshots, shadow_replay
from reference import snapshot_sets as sets
from reference import snapshot_totals as totals


def event(action, address, size, time_us, line=0):
    frames = [
        {"filename": "??", "name": "malloc", "line": 0},
        {"filename": "/venv/site-packages/torch/nn/functional.py", "name": "linear", "line": 9},
        {"filename": "/home/me/train.py", "name": "step", "line": line},
    ]
    return {"action": action, "addr": address, "size": size, "time_us": time_us, "frames": frames}


@pytest.fixture
def by_hand():
    """A segment of 4096 bytes: 1000 at 0 (from before), 500 at 1024 (kept), 100 at 2048 (freed)."""
    trace = [
        event("segment_alloc", 0, 4096, 10),
        event("alloc", 1024, 500, 11, line=7),
        event("alloc", 2048, 100, 12, line=8),
        event("free_requested", 3072, 30, 13),
        event("free_completed", 3072, 30, 14),
        event("free_requested", 2048, 100, 15),
    ]
    blocks = [
        {"address": 0, "size": 1024, "requested_size": 1000, "state": "active_allocated"},
        {"address": 1024, "size": 1024, "requested_size": 500, "state": "active_allocated"},
        {"address": 2048, "size": 512, "requested_size": 100, "state": "active_pending_free"},
        {"address": 2560, "size": 1536, "requested_size": 30, "state": "inactive"},
    ]
    segment = {"device": 0, "address": 0, "total_size": 4096, "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace]}


def test_totals_by_hand(by_hand):
    device = totals.snapshot_totals(by_hand)[0]
    assert device["requested_allocated"] == {
        "baseline_bytes": 1030,
        "peak_bytes": 1630,
        "peak_event": 2,
        "peak_time_ns": 12000,
        "end_bytes": 1500,
    }
    assert device["requested_active"]["end_bytes"] == 1600
    assert device["requested_active"]["baseline_bytes"] == 1030
    assert device["reserved"]["baseline_bytes"] == 0
    assert device["reserved"]["peak_event"] == 0
    assert device["allocated_bytes_end"] == 2048
    assert device["frees_without_alloc"] == 1
    assert (device["segments"], device["blocks"], device["blocks_allocated"]) == (1, 4, 2)


def test_sets_by_hand(by_hand):
    assert sorted(sets.live_set(by_hand, 0, -1)) == [0, 3072]
    assert sorted(sets.live_set(by_hand, 0, 2)) == [0, 1024, 2048, 3072]
    assert sets.by_line(sets.live_set(by_hand, 0, 2).values()) == {
        "unknown": (1030, 2),
        "/home/me/train.py:7 step": (500, 1),
        "/home/me/train.py:8 step": (100, 1),
    }
    found = sets.fragmentation(by_hand, 0)
    assert found["cached_bytes"] == 1536
    assert found["internal_bytes"] == 24 + 524
    assert found["segments"][0]["largest_gap_bytes"] == 1536
    assert found["segments"][0]["pins"] == [0, 1024, 2048]
    lives = {(life["alloc_event"], life["free_event"]): life for life in sets.lifetimes(by_hand, 0)}
    assert set(lives) == {(None, None), (None, 3), (1, None), (2, 5)}
    assert lives[2, 5]["byte_ns"] == 100 * 3000
    assert sets.churn(by_hand, 0, within=3) == {"/home/me/train.py:8 step": (1, 100)}


def test_packages_are_libraries():
    assert sets.is_library("/home/me/venv/lib/python3.12/site-packages/einx/core.py")
    assert sets.is_library("/usr/lib/python3.12/copy.py")
    assert not sets.is_library("/home/me/lib/net.py")
    user = ("/home/me/net.py", 7, "forward")
    assert sets.user_line([("/usr/lib/python3.12/copy.py", 1, "copy"), user]) == (
        "/home/me/net.py:7 forward"
    )


def test_an_environment_named_torch_is_not_torch():
    assert sets.is_python_outside_torch("/home/me/torch/lib/python3.12/site-packages/einx/core.py")
    assert sets.is_python_outside_torch("C:\\work\\train.py")
    assert not sets.is_python_outside_torch("C:\\venv\\Lib\\site-packages\\torch\\functional.py")
    assert not sets.is_python_outside_torch("torch/nn/modules/module.py")
    assert not sets.is_python_outside_torch("/tmp/torchinductor_me/ab/cab.py")
    assert not sets.is_python_outside_torch("ceval.c")


def test_shadow_replay_detects_a_contradiction(by_hand):
    assert shadow_replay.complaints(by_hand, 0) == []
    by_hand["device_traces"][0][1]["addr"] = 512
    assert any("overlaps" in complaint for complaint in shadow_replay.complaints(by_hand, 0))


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    path = tmp_path / "evil.pickle"
    path.write_bytes(b"\x80\x04cos\nsystem\n(\x8c\x04true\x94tR.")
    with pytest.raises(pickle.UnpicklingError, match="refused"):
        totals.load(path)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(random=st.randoms(use_true_random=False))
def test_totals_and_sets_agree(random):
    snapshot = random_snapshots.make(random)
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot}
    for device in totals.snapshot_totals(snapshot):
        number = device["device"]
        for name, when in (("baseline_bytes", -1), ("end_bytes", 10**6)):
            live = sets.live_set(snapshot, number, when).values()
            assert device["requested_active"][name] == sum(block.size for block in live)
            allocated = [block.size for block in live if block.state == "allocated"]
            assert device["requested_allocated"][name] == sum(allocated)
