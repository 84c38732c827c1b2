"""The verdict of `plimsoll report` on an out-of-memory message, for each form and device."""

import pytest

from .oom_texts import TORCH_1, message


@pytest.mark.parametrize(
    ("text", "verdict", "step"),
    [
        (message(), "2.0 GiB were requested, 1.0 GiB were free, and tensors held", "batch"),
        (
            message(allocated="60.00 GiB", unused="17.50 GiB"),
            "17.5 GiB were reserved and unused, but no piece could serve 2.0 GiB",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        (
            message(
                processes="Process 4711 has 60.00 GiB memory in use. ",
                process="18.00 GiB",
                allocated="16.50 GiB",
                unused="1.00 GiB",
            ),
            "other processes use 60.0 GiB of the 80.0 GiB",
            "nvidia-smi",
        ),
        (
            message(allocated="50.00 GiB", unused="1.00 GiB"),
            "27.5 GiB of this process are outside of PyTorch's allocator",
            "other libraries",
        ),
        (
            message(
                requested="70.00 GiB",
                free="60.00 GiB",
                process="9.00 GiB",
                allocated="8.00 GiB",
                unused="0 bytes",
            ),
            "one tensor of 70.0 GiB was requested",
            "request less at a time",
        ),
        (TORCH_1, "1.4 GiB of the 7.8 GiB were used outside of PyTorch", "nvidia-smi"),
        (
            message(free="20.00 GiB", process="59.00 GiB", allocated="50.00 GiB"),
            "2.0 GiB were requested while 20.0 GiB were free",
            "not fragmentation",
        ),
        (
            message(free="20.00 GiB", allocated="50.00 GiB", unused="9.00 GiB"),
            "2.0 GiB were requested while 20.0 GiB were free",
            "set_per_process_memory_fraction",
        ),
        (
            message(
                processes="Process 4711 has 12.00 GiB memory in use. ",
                process="67.00 GiB",
                allocated="60.00 GiB",
                unused="5.00 GiB",
            ),
            "other processes use 12.0 GiB of the 80.0 GiB",
            "Stop the other processes",
        ),
        (
            message(
                processes="".join(
                    f"Process {4000 + rank} has 1.1{rank} GiB memory in use. " for rank in range(8)
                ),
                process="69.72 GiB",
                allocated="66.00 GiB",
                unused="3.00 GiB",
            ),
            "8 other processes use 9.1 GiB of the 80.0 GiB",
            "torch.cuda.set_device(local_rank)",
        ),
        (
            message(process="70.00 GiB", allocated="57.00 GiB", unused="3.00 GiB").replace(
                "capacity", "capacty"
            ),
            "10.0 GiB of this process are outside of PyTorch's allocator",
            "other libraries",
        ),
        (
            message(requested="90.00 GiB"),
            "one tensor of 90.0 GiB was requested, more than the whole device has (80.0 GiB)",
            "request less at a time",
        ),
        (
            message(process="17179869184.00 GiB"),
            "2.0 GiB were requested, 1.0 GiB were free, and tensors held 76.5 GiB",
            "batch",
        ),
    ],
)
def test_a_message_is_explained(text, verdict, step, plimsoll, tmp_path):
    path = tmp_path / "train.log"
    path.write_text("epoch 1\nloss 2.5\n" + text)
    ran = plimsoll("report", path)
    assert ran.status == 0, ran.err
    first = " ".join(ran.out.split("\n\n")[0].split())
    assert first.startswith(f"CRITICAL cuda:0 ran out of memory: {verdict}")
    assert step in first


OLD = "CUDA out of memory. Tried to allocate {0} (GPU 0; 16.00 GiB total capacity; {1})"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        # PyTorch 1.3 and earlier print what is cached beyond the tensors.
        (
            OLD.format("2.00 GiB", "13.00 GiB already allocated; 1.50 GiB free; 900.00 MiB cached"),
            "cuda:0 ran out of memory: 2.0 GiB were requested, 1.5 GiB were free, and tensors held",
        ),
        (
            OLD.format("512.00 MiB", "6.00 GiB already allocated; 0 bytes free; 9.00 GiB cached"),
            "cuda:0 ran out of memory: 9.0 GiB were reserved and unused",
        ),
        (
            OLD.format("4.25GiB", "11.00 GiB already allocated; 1.20GiB free;33.00 MiB cached"),
            "cuda:0 ran out of memory: 3.8 GiB of the 16.0 GiB were used outside of PyTorch",
        ),
        (
            OLD.format(
                "2.00 GiB",
                "14.00 GiB already allocated; 1.00 GiB free; 12.00 GiB allowed; 14.10 GiB reserved "
                "in total by PyTorch",
            ).replace("2.00 GiB (GPU", "13.00 GiB (GPU"),
            "cuda:0 ran out of memory: one tensor of 13.0 GiB was requested, more than this "
            "process may hold (12.0 GiB)",
        ),
        (
            "XPU out of memory. Tried to allocate 1.00 GiB (GPU 0; 16.00 GiB total capacity; 1.00 "
            "GiB already allocated; 1.50 GiB reserved in total by PyTorch)",
            "xpu:0 ran out of memory: the driver refused 1.0 GiB, although PyTorch held only 1.5 "
            "GiB of the 16.0 GiB",
        ),
        (
            "XPU out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 16.00 "
            "GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved "
            "by PyTorch but unallocated.",
            "xpu:0 ran out of memory: one tensor of 9.0 GiB was requested",
        ),
        (
            "MPS backend out of memory (MPS allocated: 8.00 GiB, other allocations: 9.50 GiB, max "
            "allowed: 18.00 GiB). Tried to allocate 700.00 MiB on private pool.",
            "mps:0 ran out of memory: 9.5 GiB of this process are outside of PyTorch's allocator",
        ),
        (
            "DefaultCPUAllocator: not enough memory: you tried to allocate 137438953472 bytes.",
            "cpu ran out of memory: the system refused one tensor of 128.0 GiB",
        ),
        (
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1048576 bytes. "
            "Error code 12 (Cannot allocate memory)",
            "cpu ran out of memory: the system refused one tensor of 1.0 MiB",
        ),
    ],
)
def test_older_forms_and_other_devices_have_a_verdict(text, verdict, plimsoll):
    ran = plimsoll("report", "-", input=text.encode())
    assert ran.status == 0, ran.err
    out = " ".join(ran.out.split())
    assert out.startswith(f"CRITICAL {verdict}")
    assert "optimizer steps" not in out


def test_the_process_itself_is_found_in_a_list_that_a_container_hides_it_in(plimsoll):
    text = message(processes="Process 4711 has 79.00 GiB memory in use. ").replace(
        "Including non-PyTorch memory, this process has 78.50 GiB memory in use. ", ""
    )
    out = " ".join(plimsoll("report", "-", input=text.encode()).out.split())
    assert "2.0 GiB were requested, 1.0 GiB were free, and tensors held 76.5 GiB" in out
    assert "Process 4711 of the message is this one" in out
    assert "outside of PyTorch's allocator: 1.3 GiB" in out
    assert "Others" not in out


def test_what_only_rounding_leaves_is_not_called_other_processes(plimsoll):
    text = message(free="1.12 GiB", process="78.87 GiB").encode()
    assert "Others" not in plimsoll("report", "-", input=text).out
    text = message(free="1.12 GiB", process="78.77 GiB").encode()
    assert "Others: 112.6 MiB" in plimsoll("report", "-", input=text).out


@pytest.mark.parametrize(
    ("numbers", "owner"),
    [
        ({"process": "17179869184.00 GiB"}, "this process"),
        ({"processes": "Process 4711 has 17179869184.00 GiB memory in use. "}, "process 4711"),
    ],
)
def test_a_figure_above_the_capacity_is_left_out(numbers, owner, plimsoll):
    out = " ".join(plimsoll("report", "-", input=message(**numbers).encode()).out.split())
    assert (
        f"Left out: the memory of {owner}, which the message gives as more than the device" in out
    )
    assert "1073741824" not in out
