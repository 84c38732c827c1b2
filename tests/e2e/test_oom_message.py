"""`plimsoll report` on the log of a run that died, and on files of other tools."""

import io
import json
import re
import sqlite3
import struct
import zipfile

import pytest

from .oom_texts import TORCH_1, message
from .running import complains


@pytest.mark.parametrize(
    ("start", "words", "absent"),
    [
        ("HIP out of memory.", ["hip:0", "rocm-smi", "HIP_VISIBLE_DEVICES"], "nvidia-smi"),
        ("XPU out of memory.", ["xpu:0", "xpu-smi", "ZE_AFFINITY_MASK"], "CUDA_VISIBLE"),
        ("CUDA out of memory.", ["cuda:0", "nvidia-smi", "CUDA_VISIBLE_DEVICES"], "rocm-smi"),
    ],
)
def test_tools_and_variables_have_the_names_of_the_device(start, words, absent, plimsoll):
    text = message(
        processes="Process 4711 has 60.00 GiB memory in use. ",
        process="18.00 GiB",
        allocated="16.50 GiB",
        unused="1.00 GiB",
    ).replace("CUDA out of memory.", start)
    out = plimsoll("report", "-", input=text.encode()).out
    assert all(word in out for word in words), out
    assert absent not in out


def test_the_limit_of_mps_is_not_called_the_programs(plimsoll):
    text = (
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.50 GB, other allocations: "
        "384.00 KB, max allowed: 18.00 GB). Tried to allocate 1024.00 MB on private pool."
    )
    out = " ".join(plimsoll("report", "-", input=text.encode()).out.split())
    assert out.startswith("CRITICAL mps:0 ran out of memory: this process may hold 18.0 GiB")
    assert "PYTORCH_MPS_HIGH_WATERMARK_RATIO" in out
    assert "the program has set" not in out


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_logs_of_powershell_are_read(encoding, plimsoll):
    text = "epoch 1 \N{CHECK MARK}\r\n" + message()
    ran = plimsoll("report", "-", input=text.encode(encoding))
    assert ran.status == 0, ran.err
    assert "tensors held 76.5 GiB" in " ".join(ran.out.split())


def test_colors_inside_a_message_are_ignored(plimsoll):
    text = re.sub(r"(\d+\.\d+)", "\x1b[1;36m\\1\x1b[0m", message())
    ran = plimsoll("report", "-", input=text.encode())
    assert ran.status == 0, ran.err
    assert "Device: 80.0 GiB in all, of which the driver had 1.0 GiB free." in ran.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RuntimeError: CUDA error: out of memory\n", ["no numbers", "outside of PyTorch"]),
        ("torch.AcceleratorError: HIP error: out of memory\n", ["no numbers", "rocm-smi"]),
        ("alloc.h:178 NCCL WARN Cuda failure 2 'out of memory'\n", ["NCCL", "no numbers"]),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling\n", ["cuBLAS", "no numbers"]),
        ("Out of memory: Killed process 42 (python) anon-rss:9kB\n", ["the kernel", "plimsoll"]),
        (
            'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/'
            'CUDACachingAllocator.cpp":1154, please report a bug to PyTorch.\n',
            ["PyTorch ran out of memory", "no numbers", "MIG"],
        ),
        (
            "bfc.cc:482] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.07GiB "
            "(rounded to 3300000000)requested by op\n",
            ["TensorFlow or JAX", "3.1 GiB"],
        ),
    ],
)
def test_a_text_of_another_program_is_explained(text, words, plimsoll):
    log = "epoch 1\n" * 20_000 + text
    ran = plimsoll("report", "-", input=log.encode())
    assert ran.status == 0, ran.err
    out = " ".join(ran.out.split())
    assert all(word in out for word in words), out
    assert "request of 0 B" not in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CUDA out of memory. Tried to allocate 20", ["cut off"]),
        ("| PyTorch CUDA memory summary, device ID 0 |\n", ["memory_summary()", "plimsoll run"]),
    ],
)
def test_a_text_without_a_message_is_named(text, words, plimsoll):
    log = "epoch 1\n" * 20_000 + text
    complains(plimsoll("report", "-", input=log.encode()), 3, *words)


def test_each_number_of_a_message_is_named(plimsoll, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(message(processes="Process 4711 has 0.25 GiB memory in use. "))
    text = " ".join(plimsoll("report", path).out.split())
    assert "Failed request: 2.0 GiB, by project/train.py:30 (step)" in text.replace(
        "me/project", "project"
    )
    assert "Device: 80.0 GiB in all, of which the driver had 1.0 GiB free." in text
    assert "PyTorch: 76.5 GiB in tensors, and 1.2 GiB reserved but unused" in text
    assert "outside of PyTorch's allocator: 819.2 MiB" in text
    assert "Process 4711 has 256.0 MiB." in text


def test_messages_come_from_standard_input(plimsoll):
    ran = plimsoll("report", "-", input=TORCH_1.encode())
    assert ran.status == 0, ran.err
    assert "ran out of memory" in ran.out


CUTS = {
    "capacity": {"device_total_bytes": 80 << 30},
    "is free": {"device_total_bytes": 80 << 30, "device_free_bytes": 1 << 30},
    "Of the allocated": {"device_total_bytes": 80 << 30, "device_free_bytes": 1 << 30},
}


@pytest.mark.parametrize("end", CUTS)
def test_what_a_cut_message_does_not_state_is_unknown(end, plimsoll):
    text = message()
    cut = text[: text.index(end) + len(end)]
    if end == "capacity":
        cut = text[: text.index("of which")]
    ran = plimsoll("report", "-", input=cut.encode())
    assert ran.status == 0, ran.err
    assert "0 B" not in ran.out
    (device,) = json.loads(plimsoll("report", "-", "--json", input=cut.encode()).out)["devices"]
    for name in ("requested_allocated", "requested_active", "reserved", "allocated"):
        assert device[name] is None
    (details,) = device["oom_details"]
    assert details["requested_bytes"] == 2 << 30
    known = {name: value for name, value in CUTS[end].items() if value is not None}
    for name in ("device_free_bytes", "device_total_bytes", "limit_bytes", "reserved_bytes"):
        assert details[name] == known.get(name)
    assert details["need"]["available_bytes"] is None
    page = plimsoll("report", "-", "--html", "-", input=cut.encode()).out
    assert "How much was allocated is unknown." in page
    assert ">0<small>" not in page
    assert ">0 B<" not in page


def test_the_amounts_of_a_whole_message_are_allocated_not_requested(plimsoll):
    ran = plimsoll("report", "-", "--json", input=message().encode())
    (device,) = json.loads(ran.out)["devices"]
    assert device["requested_active"] is None
    assert device["allocated"]["peak_bytes"] == int(76.5 * (1 << 30))
    assert device["reserved"]["peak_bytes"] == round(77.7 * (1 << 30))
    out = plimsoll("report", "--full", "-", input=message().encode()).out
    assert "allocated  76.5 GiB" in out
    assert "out of memory  once: a request of 2.0 GiB at event 0 of 1" in out


@pytest.mark.parametrize(
    "kind",
    ["speedscope", "collapsed", "collapsed-layers", "timeline", "timeline-csv", "snapshot", "svg"],
)
def test_formats_of_allocations_refuse_a_message(kind, plimsoll, tmp_path):
    (tmp_path / "train.log").write_text(message())
    output = tmp_path / "out"
    ran = plimsoll("export", tmp_path / "train.log", "--to", kind, "-o", output)
    assert ran.status == 2
    assert "lists no allocations" in ran.err
    assert "html or json" in ran.err
    assert not output.exists()


@pytest.mark.parametrize("kind", ["html", "json", "notebook"])
def test_formats_of_findings_show_a_message(kind, plimsoll, tmp_path):
    (tmp_path / "train.log").write_text(message())
    ran = plimsoll("export", tmp_path / "train.log", "--to", kind, "-o", "-")
    assert ran.status == 0, ran.err
    assert "ran out of memory" in ran.out


def sqlite_file(path):
    database = sqlite3.connect(path)
    database.execute("create table blocks(id integer)")
    database.commit()
    database.close()


def checkpoint(path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("model/data.pkl", b"")
    path.write_bytes(content.getvalue())


def event_file(path):
    event = b"\x09" + struct.pack("<d", 1.0) + b"\x1a\x0dbrain.Event:2"
    path.write_bytes(struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0")


@pytest.mark.parametrize(
    ("write", "name", "words"),
    [
        (sqlite_file, "snapshot.db", ["SQLite database", "torch.cuda.memory._dump_snapshot(path)"]),
        (checkpoint, "model.pt", ["torch.save()", "not a memory snapshot"]),
        (event_file, "events.out.tfevents.1", ["TensorBoard", "plimsoll analyze"]),
        (lambda p: p.write_bytes(b"memray\0\1\2"), "run.bin", ["memray flamegraph"]),
        (lambda p: p.write_text("| NVIDIA-SMI 550.54 |\n"), "smi.txt", ["plimsoll analyze"]),
        (
            lambda p: p.write_text("index, memory.used [MiB]\n0, 3\n"),
            "smi.csv",
            ["plimsoll analyze"],
        ),
        (lambda p: p.write_text("import torch\n"), "train.py", ["plimsoll run FILE"]),
        (lambda p: p.write_text("[[1, 2], [[3], [4]]]"), "timeline.json", ["export_chrome_trace"]),
        (lambda p: p.write_text("[" * 200_000), "brackets.json", ["list of lists"]),
        (lambda p: p.write_text("epoch 1\n"), "train.log", ["none of the messages", "vLLM"]),
        (lambda p: p.write_bytes(b"\xfe\xff\0\1"), "odd.bin", ["unknown file format"]),
    ],
)
def test_files_of_other_tools_are_named_with_the_way_out(write, name, words, plimsoll, tmp_path):
    write(tmp_path / name)
    ran = plimsoll("report", tmp_path / name)
    complains(ran, 3, *words)
    assert "begins with" not in ran.err
