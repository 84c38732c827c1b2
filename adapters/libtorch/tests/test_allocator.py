"""Allocations and frees of torch on the CPU, and memory from outside its allocator."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import torch
import torch.utils.cpp_extension
from torch.multiprocessing.reductions import StorageWeakRef
from watching import KNOWN, Recorder, allocs, tags


def test_every_block_is_seen_with_its_size_and_its_end(recorder):
    tensor = torch.empty(1000)
    (alloc,) = allocs(recorder.take())
    assert alloc["size"] == 4000
    assert alloc["address"] == tensor.data_ptr()
    del tensor
    (free,) = recorder.take()
    assert (free["kind"], free["address"]) == ("free", alloc["address"])


def test_views_and_in_place_operators_allocate_nothing(recorder):
    tensor = torch.zeros(10, 10)
    recorder.take()
    tensor.view(100)[5:].t().neg_()
    assert allocs(recorder.take()) == []


def test_growing_and_shrinking_a_storage_is_seen(recorder):
    tensor = torch.empty(10)
    tensor.resize_(1000)
    assert [e["size"] for e in allocs(recorder.take())] == [40, 4000]


def test_a_storage_from_before_is_adopted_and_its_end_and_growth_are_seen(library):
    tensor = torch.empty(777)
    recorder = Recorder(library).attach()
    (adopted,) = [e for e in recorder.take() if e["kind"] == "adopt" and e["size"] == 777 * 4]
    assert adopted["address"] == tensor.data_ptr()
    tensor.resize_(8000)
    assert [e["size"] for e in allocs(recorder.take())] == [32000]
    del tensor
    assert [e["kind"] for e in recorder.take()] == ["free"]
    recorder.detach()


def test_blocks_freed_after_detaching_and_attaching_again(library):
    recorder = Recorder(library).attach()
    tensors = [torch.empty(100) for _ in range(3)]
    recorder.detach()
    tensors.pop()
    again = Recorder(library).attach()
    assert len([e for e in again.take() if e["kind"] == "adopt" and e["size"] == 400]) >= 2
    addresses = {t.data_ptr() for t in tensors}
    tensors.clear()
    assert {e["address"] for e in again.take() if e["kind"] == "free"} >= addresses
    again.detach()


def test_nothing_is_reported_while_detached(library):
    recorder = Recorder(library).attach()
    recorder.detach()
    recorder.take()
    kept = torch.randn(50)
    model = torch.nn.Linear(5, 5)
    model(torch.randn(2, 5)).sum().backward()
    del kept
    assert recorder.take() == []


def test_memory_of_numpy_counts_when_a_module_gets_it_and_its_end_is_noticed(recorder):
    model = torch.nn.Linear(300, 2)
    array = np.ones((4, 300), dtype=np.float32)
    tensor = torch.from_numpy(array)
    line = sys._getframe().f_lineno + 1
    model(tensor)
    (event,) = [e for e in recorder.take() if e["kind"] == "alloc" and e["size"] == 4800]
    assert event["address"] == array.ctypes.data
    assert recorder.stack(event)[0][1] == line
    del tensor
    model(torch.randn(1, 300))  # a boundary, at which foreign memory is checked
    assert array.ctypes.data in {e["address"] for e in recorder.take() if e["kind"] == "free"}


def test_two_tensors_on_the_same_numpy_memory_are_one_allocation(recorder):
    model = torch.nn.Linear(300, 2)
    array = np.ones((4, 300), dtype=np.float32)
    first, second = torch.from_numpy(array), torch.from_numpy(array)
    model(first)
    model(second)
    assert len([e for e in recorder.take() if e["kind"] == "alloc" and e["size"] == 4800]) == 1
    del first
    model(torch.randn(1, 300))
    ended = [e["address"] for e in recorder.take() if e["kind"] == "free"]
    assert array.ctypes.data not in ended
    del second
    model(torch.randn(1, 300))
    ended = [e["address"] for e in recorder.take() if e["kind"] == "free"]
    assert array.ctypes.data in ended


def test_shared_memory_counts_when_a_module_gets_it_and_its_end_is_noticed(recorder):
    model = torch.nn.Linear(64, 2)
    tensor = torch.randn(16, 64).share_memory_()
    model(tensor)
    address = tensor.data_ptr()
    assert address in {e["address"] for e in recorder.take() if e["kind"] == "alloc"}
    del tensor
    model(torch.randn(1, 64))
    assert address in {e["address"] for e in recorder.take() if e["kind"] == "free"}


def test_threads_that_come_and_go(recorder):
    def work():
        for _ in range(20):
            torch.randn(123).mul(2)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = [e for e in recorder.take() if e["kind"] in ("alloc", "free")]
    sizes = [e for e in events if e.get("size") == 492]
    assert len(sizes) == 8 * 20 * 2


def test_the_live_bytes_are_those_of_all_storages(recorder):
    gc.collect()
    kept = [torch.randn(n) for n in range(1, 50)]
    before = recorder.live_bytes
    extra = sum(t.untyped_storage().nbytes() for t in kept)
    kept.clear()
    gc.collect()
    assert before - recorder.live_bytes == extra


def test_a_forked_child_that_records_nothing_works(recorder):
    child = os.fork()
    if child == 0:
        torch.empty(10)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_weak_references_to_storages_still_report_the_truth(recorder):
    array = np.ones(1000, dtype=np.float32)
    tensor = torch.from_numpy(array)
    torch.nn.Linear(1000, 1)(tensor)
    reference = StorageWeakRef(tensor.untyped_storage())
    assert not reference.expired()
    del tensor
    assert reference.expired()


def test_dtype_and_shape_of_what_was_adopted(library):
    kept = torch.zeros(3, 5, dtype=torch.bfloat16)
    recorder = Recorder(library).attach()
    (reported,) = [e["tensor"] for e in tags(recorder.take(), KNOWN) if e["size"] == 30][:1]
    assert (reported["dtype"], reported["shape"]) == ("bfloat16", "[3, 5]")
    recorder.detach()
    del kept


OWN_ALLOCATOR = """
import ctypes
import sys

sys.path.insert(0, sys.argv[1])
import torch
from watching import Recorder, allocs, load_counting_recorder
from pathlib import Path

counting = load_counting_recorder(Path(sys.argv[2]))
shifted = ctypes.CDLL(sys.argv[3])
shifted.live_shifted_blocks.restype = ctypes.c_size_t
recorder = Recorder(counting).attach()
of_torch = [torch.empty(999) for _ in range(100)]
recorder.detach()
shifted.set_shifted_allocator()
recorder.attach()
recorder.take()
before = shifted.live_shifted_blocks()
of_program = [torch.empty(777) for _ in range(100)]
assert shifted.live_shifted_blocks() - before == 100
assert len(allocs(recorder.take(), size=777 * 4)) == 100
del of_torch  # freed by torch's deleter, although the present allocator has another one
recorder.detach()
del of_program
assert shifted.live_shifted_blocks() == before
print("freed by their own")
"""


def test_a_block_is_freed_by_the_allocator_that_made_it(tmp_path):
    """The program sets its own allocator between two recordings."""
    tests = Path(__file__).parent
    library = tmp_path / "shifted.so"
    folders = [f"-I{folder}" for folder in torch.utils.cpp_extension.include_paths()]
    torch_folder = Path(torch.__file__).parent / "lib"
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", *folders]
    command += [str(tests / "shifted_allocator.cc"), "-o", str(library)]
    subprocess.run([*command, f"-L{torch_folder}", "-lc10"], check=True)
    arguments = [str(tests), str(tmp_path), str(library)]
    done = subprocess.run(
        [sys.executable, "-c", OWN_ALLOCATOR, *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "freed by their own\n"), done.stderr
