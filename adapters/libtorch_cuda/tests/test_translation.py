"""From what torch's allocator tells to the calls of the recorder: sizes, streams, sums."""

import ctypes
import threading

import pytest

MIB = 1 << 20


def of(events, *kinds):
    return [event for event in events if event["kind"] in kinds]


def sums_agree(half):
    for row in half.state():
        assert row["allocated_bytes"] == row["torch_allocated_bytes"]
        assert row["reserved_bytes"] == row["torch_reserved_bytes"]
        assert row["disproved"] == 0
    return True


def test_a_block_from_its_segment_to_its_end(recorder, half, fake):
    address = fake.fake_alloc(0, 1000, 7)
    fake.fake_free(address)
    events = of(recorder.take(), "segment", "alloc_block", "free_requested", "free_completed")
    assert [event["kind"] for event in events] == [
        "segment",
        "alloc_block",
        "free_requested",
        "free_completed",
    ]
    segment, alloc, _, _ = events
    assert (segment["action"], segment["size"], segment["stream"]) == (0, 2 * MIB, 7)
    assert (alloc["requested"], alloc["size"], alloc["stream"]) == (1000, 1024, 7)
    assert {event["device"] for event in events} == {1}
    assert sums_agree(half)


def test_devices_are_told_apart(recorder, half, fake):
    kept = [fake.fake_alloc(device, 5 * MIB, 0) for device in (0, 1, 1)]
    told = of(recorder.take(), "alloc_block")
    assert [event["device"] for event in told] == [1, 2, 2]
    assert [row["allocated_bytes"] for row in half.state()] == [5 * MIB, 10 * MIB]
    assert sums_agree(half)
    for address in kept:
        fake.fake_free(address)


def test_a_block_that_waits_for_another_stream(recorder, half, fake):
    address = fake.fake_alloc(0, 4096, 0)
    fake.fake_record_stream(0, address)
    recorder.take()
    fake.fake_free(address)
    assert [e["kind"] for e in of(recorder.take(), "free_requested", "free_completed")] == [
        "free_requested"
    ]
    fake.fake_complete_all(0)
    assert [e["kind"] for e in recorder.take()] == ["free_completed"]
    assert sums_agree(half)


def test_segments_that_are_given_back(recorder, half, fake):
    fake.fake_free(fake.fake_alloc(0, 30 * MIB, 0))
    recorder.take()
    fake.fake_empty_cache()
    (event,) = of(recorder.take(), "segment")
    assert (event["action"], event["size"]) == (1, 30 * MIB)
    assert half.state()[0]["reserved_bytes"] == 0
    assert sums_agree(half)


def test_each_gauge_value_proves_a_size(recorder, half, fake):
    before = half.state()[0]["proofs"]
    kept = [fake.fake_alloc(0, size, 0) for size in (100, 3 * MIB, 17 * MIB, 600, MIB)]
    for address in kept:
        fake.fake_free(address)
    # Of each block its allocation and its end; besides, two segments.
    assert half.state()[0]["proofs"] - before == 2 * 5 + 2
    assert sums_agree(half)


def test_a_size_that_no_rule_explains_is_mended_by_the_gauge(recorder, half, fake):
    fake.fake_enlarge_next(0, 4096)
    address = fake.fake_alloc(0, 1000, 0)
    told = of(recorder.take(), "alloc_block", "free_requested")
    assert [event["kind"] for event in told] == ["alloc_block", "free_requested", "alloc_block"]
    assert told[-1]["size"] == 1024 + 4096
    assert half.state()[0]["corrected"] == 1
    other = fake.fake_alloc(0, 1000, 0)  # what lies behind it is where it should be
    assert of(recorder.take(), "alloc_block")[0]["size"] == 1024
    assert sums_agree(half)
    fake.fake_free(address)
    fake.fake_free(other)


def test_sums_that_differ_are_mended_by_a_snapshot(recorder, half, fake):
    fake.fake_mute(1)
    silent = fake.fake_alloc(1, 5 * MIB, 0)
    fake.fake_mute(0)
    assert half.differs() == 1
    assert half.renew() == 1
    (event,) = of(recorder.take(), "adopt_block")
    assert (event["address"], event["size"], event["device"]) == (silent, 5 * MIB, 2)
    assert half.differs() is None
    assert half.renew() == 0


def test_what_lives_already_is_adopted_with_its_stream(library, half, fake):
    from watching import Recorder

    kept = [fake.fake_alloc(0, size, 9) for size in (100, 3 * MIB)]
    pending = fake.fake_alloc(0, 2000, 9)
    fake.fake_record_stream(0, pending)
    fake.fake_free(pending)
    recorder = Recorder(library)
    library.counting_clear()
    half.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    events = recorder.take()
    assert [e["kind"] for e in of(events, "segment", "adopt_block")] == (
        ["segment"] * 2 + ["adopt_block"] * 3
    )
    assert {e["stream"] for e in of(events, "segment", "adopt_block")} == {9}
    adopted = {e["address"]: (e["requested"], e["size"]) for e in of(events, "adopt_block")}
    assert adopted == {kept[0]: (100, 512), kept[1]: (3 * MIB, 3 * MIB), pending: (2000, 2048)}
    assert of(events, "free_requested")[0]["address"] == pending
    assert sums_agree(half)
    for address in kept:
        fake.fake_free(address)
    fake.fake_complete_all(0)
    assert [e["kind"] for e in recorder.take()].count("free_completed") == 3
    assert sums_agree(half)
    half.detach()


@pytest.mark.parametrize("device", [0, 1])  # torch says of each device's snapshot that it is of 0
def test_what_happens_while_a_snapshot_is_read_is_neither_lost_nor_told_twice(
    library, half, fake, device
):
    from watching import Recorder

    first = fake.fake_alloc(device, 1000, 0)
    late = []

    @ctypes.CFUNCTYPE(None)
    def meanwhile():
        def work():
            late.append(fake.fake_alloc(device, 5000, 0))
            fake.fake_free(first)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    fake.fake_after_snapshot(meanwhile)
    recorder = Recorder(library)
    library.counting_clear()
    half.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    fake.fake_after_snapshot(None)
    told = [(e["kind"], e["address"]) for e in recorder.take() if "address" in e]
    told = [each for each in told if each[0] != "segment"]
    assert told == [
        ("adopt_block", first),
        ("alloc_block", late[0]),
        ("free_requested", first),
        ("free_completed", first),
    ]
    assert sums_agree(half)
    fake.fake_free(late[0])
    half.detach()


def test_nothing_is_told_after_detaching(library, half, fake):
    from watching import Recorder

    recorder = Recorder(library)
    half.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    half.detach()
    recorder.take()
    fake.fake_free(fake.fake_alloc(0, 1000, 0))
    assert recorder.take() == []
    assert not half.is_attached()


@pytest.mark.parametrize("backend", ["cudaMallocAsync", "pluggable"])
def test_other_allocators_are_refused_in_one_sentence(library, half, fake, backend):
    fake.fake_set_backend(backend.encode())
    try:
        assert "allocator" in half.problem()
        with pytest.raises(RuntimeError, match="allocator"):
            half.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    finally:
        fake.fake_set_backend(b"native")
    assert half.problem() is None


def test_many_threads_on_two_devices(recorder, half, fake):
    def work(device):
        for turn in range(300):
            kept = [fake.fake_alloc(device, 512 * (turn % 40 + 1), turn % 3) for _ in range(4)]
            for address in kept:
                fake.fake_free(address)

    threads = [threading.Thread(target=work, args=(index % 2,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(of(recorder.take(), "alloc_block")) == 6 * 300 * 4
    assert [row["allocated_bytes"] for row in half.state()] == [0, 0]
    assert sums_agree(half)


def test_running_out_of_memory_tells_recorder_and_python(recorder, half, fake):
    fake.fake_set_limit(0, 8 * MIB)
    assert fake.fake_alloc(0, 9 * MIB, 3) == 0
    (event,) = of(recorder.take(), "out_of_memory")
    assert (event["requested"], event["stream"], event["device"]) == (9 * MIB, 3, 1)
    assert (event["free"], event["limit"], event["total"]) == (8 * MIB, 8 * MIB, 8 * MIB)
    assert recorder.failures == [(0, 9 * MIB, 20 * MIB, 8 * MIB, 8 * MIB, 8 * MIB)]


def test_what_a_signal_raises_while_a_failure_is_reported_follows_it(recorder, library, half, fake):
    def report(*words):
        raise TimeoutError

    half.detach()
    half.attach(library.counting_recorder(), 0, 2, report)
    fake.fake_set_limit(0, 8 * MIB)
    returned = []
    with pytest.raises(TimeoutError):
        returned.append(fake.fake_alloc(0, 9 * MIB, 3))
        returned.append("something that runs Python")
        for _ in range(1000):
            returned.append("and more")
    assert len(returned) < 1000


def test_a_limit_of_the_process_is_told_beside_what_the_device_has(recorder, half, fake):
    fake.fake_set_limit(0, 100 * MIB)
    fake.fake_set_fraction(0, 0.5)
    assert fake.fake_alloc(0, 60 * MIB, 0) == 0
    (event,) = of(recorder.take(), "out_of_memory")
    assert (event["free"], event["limit"], event["total"]) == (100 * MIB, 50 * MIB, 100 * MIB)


def test_settings_are_told_when_attaching_and_when_asked_for(library, half, fake):
    from watching import Recorder

    recorder = Recorder(library)
    fake.fake_set_conf(b"expandable_segments:True,max_split_size_mb:64")
    half.attach(library.counting_recorder(), 0, 2, lambda *words: None)
    told = {each["name"]: each["value"] for each in of(recorder.take(), "setting")}
    assert told["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,max_split_size_mb:64"
    assert told["expandable_segments"] == 1
    assert told["max_split_size"] == -1
    assert told["roundup_power2_divisions.32768"] == 0
    fake.fake_set_conf(b"")
    half.tell_settings()
    told = {each["name"]: each["value"] for each in of(recorder.take(), "setting")}
    assert told["expandable_segments"] == 0
    half.detach()
