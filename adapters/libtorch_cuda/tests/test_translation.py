"""The events of torch's allocator become calls of the recorder: sizes, streams, sums."""

import ctypes
import threading

import pytest

MIB = 1 << 20


def of(events, *kinds):
    return [event for event in events if event["kind"] in kinds]


def sums_agree(cuda):
    for row in cuda.state():
        assert row["allocated_bytes"] == row["torch_allocated_bytes"]
        assert row["reserved_bytes"] == row["torch_reserved_bytes"]
        assert row["disproved"] == 0
    return True


def test_a_block_from_its_segment_to_its_end(recorder, cuda, fake):
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
    assert sums_agree(cuda)


def test_devices_are_distinguished(recorder, cuda, fake):
    kept = [fake.fake_alloc(device, 5 * MIB, 0) for device in (0, 1, 1)]
    reported = of(recorder.take(), "alloc_block")
    assert [event["device"] for event in reported] == [1, 2, 2]
    assert [row["allocated_bytes"] for row in cuda.state()] == [5 * MIB, 10 * MIB]
    assert sums_agree(cuda)
    for address in kept:
        fake.fake_free(address)


def test_a_block_that_waits_for_another_stream(recorder, cuda, fake):
    address = fake.fake_alloc(0, 4096, 0)
    fake.fake_record_stream(0, address)
    recorder.take()
    fake.fake_free(address)
    assert [e["kind"] for e in of(recorder.take(), "free_requested", "free_completed")] == [
        "free_requested"
    ]
    fake.fake_complete_all(0)
    assert [e["kind"] for e in recorder.take()] == ["free_completed"]
    assert sums_agree(cuda)


def test_segments_that_are_given_back(recorder, cuda, fake):
    fake.fake_free(fake.fake_alloc(0, 30 * MIB, 0))
    recorder.take()
    fake.fake_empty_cache()
    (event,) = of(recorder.take(), "segment")
    assert (event["action"], event["size"]) == (1, 30 * MIB)
    assert cuda.state()[0]["reserved_bytes"] == 0
    assert sums_agree(cuda)


def test_each_gauge_value_proves_a_size(recorder, cuda, fake):
    before = cuda.state()[0]["proofs"]
    kept = [fake.fake_alloc(0, size, 0) for size in (100, 3 * MIB, 17 * MIB, 600, MIB)]
    for address in kept:
        fake.fake_free(address)
    # Allocation and end of each block, and two segments.
    assert cuda.state()[0]["proofs"] - before == 2 * 5 + 2
    assert sums_agree(cuda)


def test_a_size_that_no_rule_explains_is_corrected_by_the_gauge(recorder, cuda, fake):
    fake.fake_enlarge_next(0, 4096)
    address = fake.fake_alloc(0, 1000, 0)
    reported = of(recorder.take(), "alloc_block", "free_requested")
    assert [event["kind"] for event in reported] == ["alloc_block", "free_requested", "alloc_block"]
    assert reported[-1]["size"] == 1024 + 4096
    assert cuda.state()[0]["corrected"] == 1
    other = fake.fake_alloc(0, 1000, 0)  # the next block is where it should be
    assert of(recorder.take(), "alloc_block")[0]["size"] == 1024
    assert sums_agree(cuda)
    fake.fake_free(address)
    fake.fake_free(other)


def test_sums_that_differ_are_corrected_by_a_snapshot(recorder, cuda, fake):
    fake.fake_mute(1)
    silent = fake.fake_alloc(1, 5 * MIB, 0)
    fake.fake_mute(0)
    assert cuda.differs() == 1
    assert cuda.renew() == 1
    (event,) = of(recorder.take(), "adopt_block")
    assert (event["address"], event["size"], event["device"]) == (silent, 5 * MIB, 2)
    assert cuda.differs() is None
    assert cuda.renew() == 0


def test_live_memory_is_adopted_with_its_stream(library, cuda, fake):
    from watching import Recorder

    kept = [fake.fake_alloc(0, size, 9) for size in (100, 3 * MIB)]
    pending = fake.fake_alloc(0, 2000, 9)
    fake.fake_record_stream(0, pending)
    fake.fake_free(pending)
    recorder = Recorder(library)
    library.counting_clear()
    cuda.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    events = recorder.take()
    assert [e["kind"] for e in of(events, "segment", "adopt_block")] == (
        ["segment"] * 2 + ["adopt_block"] * 3
    )
    assert {e["stream"] for e in of(events, "segment", "adopt_block")} == {9}
    adopted = {e["address"]: (e["requested"], e["size"]) for e in of(events, "adopt_block")}
    assert adopted == {kept[0]: (100, 512), kept[1]: (3 * MIB, 3 * MIB), pending: (2000, 2048)}
    assert of(events, "free_requested")[0]["address"] == pending
    assert sums_agree(cuda)
    for address in kept:
        fake.fake_free(address)
    fake.fake_complete_all(0)
    assert [e["kind"] for e in recorder.take()].count("free_completed") == 3
    assert sums_agree(cuda)
    cuda.detach()


@pytest.mark.parametrize("device", [0, 1])  # torch always reports it for device 0
def test_what_happens_while_a_snapshot_is_read_is_neither_lost_nor_reported_twice(
    library, cuda, fake, device
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
    cuda.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    fake.fake_after_snapshot(None)
    reported = [(e["kind"], e["address"]) for e in recorder.take() if "address" in e]
    reported = [each for each in reported if each[0] != "segment"]
    assert reported == [
        ("adopt_block", first),
        ("alloc_block", late[0]),
        ("free_requested", first),
        ("free_completed", first),
    ]
    assert sums_agree(cuda)
    fake.fake_free(late[0])
    cuda.detach()


def test_nothing_is_reported_after_detaching(library, cuda, fake):
    from watching import Recorder

    recorder = Recorder(library)
    cuda.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    cuda.detach()
    recorder.take()
    fake.fake_free(fake.fake_alloc(0, 1000, 0))
    assert recorder.take() == []
    assert not cuda.is_attached()


@pytest.mark.parametrize("backend", ["cudaMallocAsync", "pluggable"])
def test_other_allocators_are_refused_in_one_sentence(library, cuda, fake, backend):
    fake.fake_set_backend(backend.encode())
    try:
        assert "allocator" in cuda.problem()
        with pytest.raises(RuntimeError, match="allocator"):
            cuda.attach(library.counting_recorder(), 0, 2, lambda *_: None)
    finally:
        fake.fake_set_backend(b"native")
    assert cuda.problem() is None


def test_many_threads_on_two_devices(recorder, cuda, fake):
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
    assert [row["allocated_bytes"] for row in cuda.state()] == [0, 0]
    assert sums_agree(cuda)


def test_running_out_of_memory_reports_recorder_and_python(recorder, cuda, fake):
    fake.fake_set_limit(0, 8 * MIB)
    assert fake.fake_alloc(0, 9 * MIB, 3) == 0
    (event,) = of(recorder.take(), "out_of_memory")
    assert (event["requested"], event["stream"], event["device"]) == (9 * MIB, 3, 1)
    assert (event["free"], event["limit"], event["total"]) == (8 * MIB, 8 * MIB, 8 * MIB)
    assert recorder.failures == [(0, 9 * MIB, 20 * MIB, 8 * MIB, 8 * MIB, 8 * MIB)]


def test_what_a_signal_raises_while_a_failure_is_reported_follows_it(recorder, library, cuda, fake):
    def report(*words):
        raise TimeoutError

    cuda.detach()
    cuda.attach(library.counting_recorder(), 0, 2, report)
    fake.fake_set_limit(0, 8 * MIB)
    returned = []
    with pytest.raises(TimeoutError):
        returned.append(fake.fake_alloc(0, 9 * MIB, 3))
        returned.append("something that runs Python")
        for _ in range(1000):
            returned.append("and more")
    assert len(returned) < 1000


def test_a_limit_of_the_process_is_reported_with_the_memory_of_the_device(recorder, cuda, fake):
    fake.fake_set_limit(0, 100 * MIB)
    fake.fake_set_fraction(0, 0.5)
    assert fake.fake_alloc(0, 60 * MIB, 0) == 0
    (event,) = of(recorder.take(), "out_of_memory")
    assert (event["free"], event["limit"], event["total"]) == (100 * MIB, 50 * MIB, 100 * MIB)


def test_settings_are_reported_when_attaching_and_when_asked_for(library, cuda, fake):
    from watching import Recorder

    recorder = Recorder(library)
    fake.fake_set_conf(b"expandable_segments:True,max_split_size_mb:64")
    cuda.attach(library.counting_recorder(), 0, 2, lambda *words: None)
    reported = {each["name"]: each["value"] for each in of(recorder.take(), "setting")}
    assert reported["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,max_split_size_mb:64"
    assert reported["expandable_segments"] == 1
    assert reported["max_split_size"] == -1
    assert reported["roundup_power2_divisions.32768"] == 0
    fake.fake_set_conf(b"")
    cuda.report_settings()
    reported = {each["name"]: each["value"] for each in of(recorder.take(), "setting")}
    assert reported["expandable_segments"] == 0
    cuda.detach()
