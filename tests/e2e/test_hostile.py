"""Broken or malicious input: status 3 and one sentence, no crash, no unbounded memory."""

import gzip
import os
import pickle
import random
import resource
import struct
import subprocess

import pytest

from .bombs import bomb
from .running import complains, environment, without_privilege

ADDRESS_SPACE = 4 << 30


def with_bounded_memory():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


@pytest.fixture
def unreadable(plimsoll, tmp_path):
    def check(content: bytes, *words: str, name: str = "file.pickle"):
        path = tmp_path / name
        path.write_bytes(content)
        complains(plimsoll("report", path), 3, name, *words)

    return check


class Harm:
    def __reduce__(self):
        return os.system, ("touch /tmp/plimsoll-was-here",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_code_is_refused_with_a_message(unreadable, protocol):
    content = pickle.dumps({"segments": [Harm()], "device_traces": []}, protocol=protocol)
    unreadable(content, *(["asks to import and run posix.system"] if protocol > 1 else []))
    assert not os.path.exists("/tmp/plimsoll-was-here")


def test_missing(plimsoll, tmp_path):
    complains(plimsoll("report", tmp_path / "missing.pickle"), 3, "missing.pickle", "No such file")


def test_a_folder(plimsoll, tmp_path):
    complains(plimsoll("report", tmp_path), 3, str(tmp_path))


def test_a_device_or_pipe(plimsoll, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in ("/dev/zero", "/dev/stdin", fifo):
        complains(plimsoll("report", path, input=b""), 3, str(path), "not a regular file")


def test_an_empty_file(unreadable):
    unreadable(b"", "empty")
    unreadable(gzip.compress(b""), name="empty.gz")


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"\x00" * 100,
            b"garbage\n" * 1000,
            b"\x80",
            b"\x80\x04",
            b"\x80\x04.",
            b"{",
            b"[]",
            b"{}",
        ),
        *(b'{"traceEvents": [', b"<html></html>", b"<!DOCTYPE html>", b"\x1f\x8b", b"\xff" * 65536),
        *(random.Random(0).randbytes(1000), b"\x80\x04N.", b"\x80\x04}.", b"\x80\x63."),
    ],
    ids=lambda content: repr(content[:20]),
)
def test_garbage(unreadable, content):
    unreadable(content)


def test_without_permission(plimsoll, healthy, tmp_path):
    path = tmp_path / "secret.pickle"
    path.write_bytes(healthy.read_bytes())
    path.chmod(0)
    outcome = plimsoll("report", path, preexec_fn=without_privilege)
    complains(outcome, 3, "secret.pickle", "ermission")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read the log of the kernel")
@pytest.mark.parametrize("command", ["report", "analyze"])
def test_a_kernel_file_is_not_waited_for(plimsoll, command):
    complains(plimsoll(command, "/proc/kmsg"), 3, "/proc/kmsg")


def test_lengths_beyond_the_end_of_the_file_are_rejected(unreadable):
    start = b"\x80\x04}"
    huge = 2**62
    unreadable(start + b"\x8d" + struct.pack("<Q", huge) + b"segments")  # BINUNICODE8
    unreadable(start + b"X" + struct.pack("<I", 2**32 - 1) + b"segments")  # BINUNICODE
    unreadable(start + b"\x8e" + struct.pack("<Q", huge) + b"x")  # BINBYTES8
    unreadable(b"\x80\x04\x95" + struct.pack("<Q", huge) + b"}.")  # FRAME
    unreadable(start + b"\x8b" + struct.pack("<i", 2**31 - 1) + b"x")  # LONG4
    unreadable(start + b"\x8b" + struct.pack("<i", -1) + b"x")
    unreadable(start + b"r" + struct.pack("<I", 2**32 - 1) + b".")  # LONG_BINPUT
    unreadable(start + b"j" + struct.pack("<I", 2**32 - 1) + b".")  # LONG_BINGET


@pytest.mark.parametrize(
    ("begin", "repeated"),
    [
        (b"\x80\x04", b"]"),
        (b"\x80\x04", b"("),
        (b"\x80\x04]", b"}"),
        (b'{"traceEvents": ', b"["),
        (b'{"traceEvents": [', b'{"a":'),
    ],
    ids=["lists", "marks", "dicts", "json-arrays", "json-objects"],
)
def test_nesting_without_end_fails_fast_in_bounded_memory(plimsoll, tmp_path, begin, repeated):
    path = tmp_path / "deep.gz"
    path.write_bytes(bomb(begin, repeated, 1_000_000_000))
    assert path.stat().st_size < 10_000_000
    complains(plimsoll("report", path, preexec_fn=with_bounded_memory), 3, "deep.gz")


@pytest.mark.parametrize("events", ["0", "100"])
@pytest.mark.slow
def test_truncated_anywhere(plimsoll_command, snapshot_generator, tmp_path, events):
    """Truncates at every byte, or at one in PLIMSOLL_TRUNCATE_EVERY. Many files per run."""
    whole = tmp_path / "whole.pickle"
    preset = ["random-free", "--events", events] if events != "0" else ["empty"]
    subprocess.run([snapshot_generator, preset[0], whole, *preset[1:], "--depth", "2"], check=True)
    content = whole.read_bytes()
    step = int(os.environ.get("PLIMSOLL_TRUNCATE_EVERY", "1"))
    sizes = [*range(1, len(content) - 1, step), len(content) - 1]
    for begin in range(0, len(sizes), 100):
        check_truncated(plimsoll_command, tmp_path, content, sizes[begin : begin + 100])


def check_truncated(command, folder, content, sizes):
    paths = [folder / f"{size}.pickle" for size in sizes]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(content[:size])
    words = [command, "report", "--json", *paths]
    ran = subprocess.run(words, capture_output=True, env=environment(), check=False)
    assert ran.returncode == 3, ran
    sentences = ran.stderr.decode().splitlines()
    assert len(sentences) == len(sizes), sentences
    for sentence, path in zip(sentences, paths, strict=True):
        assert sentence.startswith(f"plimsoll: {path}: "), sentence
    assert ran.stdout.strip() in (b"", b"[]")
    for path in paths:
        path.unlink()


def test_truncated_gzip(unreadable, healthy):
    content = gzip.compress(healthy.read_bytes())
    for size in (3, 10, 100, len(content) // 2, len(content) - 1):
        unreadable(content[:size], name="cut.gz")


def test_text_of_the_file_cannot_control_the_terminal(plimsoll, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[2J"
    block = {"size": 512, "requested_size": 512, "address": 4096, "state": "active_allocated"}
    block["frames"] = [{"filename": evil + ".py", "name": evil, "line": 1}]
    segment = {"device": 0, "address": 4096, "total_size": 2097152, "blocks": [block]}
    segment |= {"allocated_size": 512, "active_size": 512, "segment_type": "small", "stream": 0}
    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": []}, protocol=4))
    for table in ("line", "stack", "segment"):
        outcome = plimsoll("report", path, "--by", table)
        assert outcome.status == 0, outcome
        assert "\x1b" not in outcome.out
        assert "\x07" not in outcome.out


def test_settings_within_settings_do_not_multiply(plimsoll, tmp_path):
    """A few kilobytes with a sextillion settings: each level contains the next one many times."""
    level = {f"setting {i}": 1 for i in range(100)}
    for _ in range(10):
        level = {f"level {i}": level for i in range(100)}
    path = tmp_path / "settings.pickle"
    snapshot = {"segments": [], "device_traces": [[]], "allocator_settings": level}
    path.write_bytes(pickle.dumps(snapshot, 4))
    assert plimsoll("report", "--full", path).status == 0
