"""A recorder that stores its calls, and queries on it."""

import ctypes
import gc
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plimsoll._torch.attachment import LibtorchAttachment

HERE = Path(__file__).resolve().parent
ATTRIBUTION = os.environ.get("PLIMSOLL_ATTRIBUTION", "observer")
OTHER, FORWARD, BACKWARD, OPTIMIZER, DATA = range(5)
KNOWN, PARAMETER, GRADIENT, STATE, BUFFER, INPUT = range(6)
STEP, REGION_BEGIN, REGION_END, BACKWARD_BEGIN, BACKWARD_END, _ = range(6)


class Recorder:
    """The counting recorder, attached while in `with`."""

    def __init__(self, library):
        self._library = library
        self._attachment = None
        self.events = []

    def attach(self, mode="full", uses="never", attribution=ATTRIBUTION):
        gc.collect()  # models of other tests
        self._library.counting_clear()
        self._attachment = LibtorchAttachment(
            mode,
            True,
            self._library.counting_recorder(),
            uses=uses,
            attribution=attribution,
        )
        self._attachment.install()
        return self

    def detach(self):
        if self._attachment is not None:
            self._attachment.survey()
            self._attachment.detach()
            self._attachment = None

    def survey(self, what="all"):
        self._attachment.survey(what)

    def describe(self):
        self._attachment.describe()

    def find_holders(self):
        return self._attachment.find_holders(0)

    def use_cheaper_mode(self, mode):
        self._attachment.use_cheaper_mode(mode)

    def observe(self, is_wanted):
        self._attachment.observe(is_wanted)

    def user_marks_steps(self):
        self._attachment.user_marks_steps()

    def take(self):
        """The events since the last call."""
        text = self._library.counting_take_log().decode()
        return [json.loads(line) for line in text.splitlines()]

    def forget(self):
        gc.collect()
        self.take()

    def stack(self, event):
        """[(file, line, function)] of the frames outside torch, innermost first."""
        text = self._library.counting_stack(event["stack"]).decode()
        frames = [tuple(frame.rsplit(":", 2)) for frame in text.split(";") if frame]
        return [(f, int(n), name) for f, n, name in frames if "/torch/" not in f]

    @property
    def live_bytes(self):
        return self._library.counting_live_bytes()


def load_counting_recorder(folder):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    built = folder / "libcounting.so"
    flags = ["-std=c++20", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    include = f"-I{HERE.parents[2] / 'include'}"
    source = HERE / "counting_recorder.cc"
    subprocess.run([compiler, *flags, include, source, "-o", built], check=True)
    loaded = ctypes.CDLL(str(built))
    loaded.counting_recorder.restype = ctypes.c_void_p
    loaded.counting_take_log.restype = ctypes.c_char_p
    loaded.counting_stack.restype = ctypes.c_char_p
    loaded.counting_live_bytes.restype = ctypes.c_uint64
    return loaded


def allocs(events, **wanted):
    found = [e for e in events if e["kind"] == "alloc"]
    return [e for e in found if all(e[k] == v for k, v in wanted.items())]


def tags(events, role):
    found = [e for e in events if e["kind"] in ("tag", "adopt") and e["tensor"] is not None]
    return [e for e in found if e["tensor"]["role"] == role]


def tag_names(events, role):
    return {e["tensor"]["name"]: e["size"] for e in tags(events, role)}


def marks(events, kind):
    return [e["value"] for e in events if e["kind"] == "mark" and e["mark"] == kind]
