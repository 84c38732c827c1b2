"""Runs the habits of users on the CPU and on fake CUDA devices, each in a separate process.

A test that takes `device` runs in a child pytest, one for all tests of that device, because fake
devices must be installed before torch is used. The parent reports the child's results. To run one
by hand: `HABITS_DEVICE=cpu pytest tests/habits/test_003_monitoring_guide.py`.
"""

import ctypes
import dataclasses
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import plimsoll

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CUDA_TESTS = ROOT / "adapters/libtorch_cuda/tests"
DEVICE = os.environ.get("HABITS_DEVICE")
DEVICES = ("cpu", "cuda")


def lend_fake_devices() -> None:
    """Make `.cuda()` work in this process: host memory behind a fake allocator."""
    import torch

    from plimsoll._cuda import cuda_adapter

    sys.path.insert(0, str(CUDA_TESTS))
    import fake_history
    import fake_torch

    from plimsoll._torch import adapter

    allocator, device = os.environ["HABITS_FAKES"].split(os.pathsep)
    fake = ctypes.CDLL(allocator, mode=ctypes.RTLD_GLOBAL)
    for name in ("fake_allocated", "fake_reserved", "fake_total"):
        getattr(fake, name).restype = ctypes.c_uint64
    folders = (Path(allocator).parent,)
    cuda_adapter.CUDA = dataclasses.replace(cuda_adapter.CUDA, library_folders=folders)
    fake_torch.pretend(fake)
    ctypes.CDLL(device, mode=ctypes.RTLD_GLOBAL)
    fake_history.History(fake)
    torch.cuda.init()
    # Both adapters, for the version that torch now claims to be: a monitor that begins without them
    # counts tensors instead of blocks.
    for each in (adapter.CPU, cuda_adapter.CUDA):
        adapter.compiled(each, print)


if DEVICE == "cuda":
    lend_fake_devices()


def pytest_configure(config):
    config.addinivalue_line("markers", "only(device): the row speaks of this device alone")


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        devices = only.args if only else DEVICES
        metafunc.parametrize("device", [each for each in devices if DEVICE in (None, each)])


@functools.cache
def fakes() -> str:
    """The two libraries of the fake devices, compiled."""
    spec = importlib.util.spec_from_file_location("cuda_conftest", CUDA_TESTS / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    cuda = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cuda)
    named = "-Wl,-soname,libc10_cuda.so"
    allocator = cuda.built(CUDA_TESTS / "fake_c10_cuda.cc", "libc10_cuda.so", [named])
    linked = [f"-L{allocator.parent}", "-lc10_cuda", "-ltorch_cpu"]
    device = cuda.built(CUDA_TESTS / "fake_cuda_device.cc", "libfake_cuda_device.so", linked)
    return f"{allocator}{os.pathsep}{device}"


class Children:
    """The child of each device, started by the first of its tests."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, dict[str, str]]] = {}

    def outcome(self, item: pytest.Item) -> dict[str, str]:
        device = device_of(item)
        if device not in self.found:
            wanted = [each.nodeid for each in item.session.items if device_of(each) == device]
            self.found[device] = self._run(device, wanted, item.config)
        return self.found[device][item.nodeid]

    @staticmethod
    def _run(device: str, wanted: list[str], config: pytest.Config) -> dict[str, dict[str, str]]:
        report = Path(tempfile.mkdtemp(prefix="plimsoll-habits-")) / "report"
        report.touch()
        environment = os.environ | {"HABITS_DEVICE": device, "HABITS_REPORT": str(report)}
        environment["OMP_NUM_THREADS"] = "1"  # little work, on a possibly busy machine
        if device == "cuda":
            environment["HABITS_FAKES"] = fakes()
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *wanted]
        ran = subprocess.run(
            words, cwd=config.rootpath, env=environment, capture_output=True, text=True, check=False
        )
        ended = (
            f"the child ended with status {ran.returncode}:\n{(ran.stdout + ran.stderr)[-3000:]}"
        )
        found = {name: {"outcome": "failed", "why": ended} for name in wanted}
        for line in report.read_text().splitlines():
            each = json.loads(line)
            if found[each["name"]]["outcome"] != "failed" or found[each["name"]]["why"] == ended:
                found[each["name"]] = each
        return found


CHILDREN = Children()


def device_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("device") if callspec is not None else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if DEVICE is not None or device_of(pyfuncitem) is None:
        return None
    outcome = CHILDREN.outcome(pyfuncitem)
    if outcome["outcome"] == "skipped":
        pytest.skip(outcome["why"])
    if outcome["outcome"] == "failed":
        pytest.fail(outcome["why"], pytrace=False)
    return True


def pytest_runtest_logreport(report):
    path = os.environ.get("HABITS_REPORT")
    if path and (report.when == "call" or report.outcome != "passed"):
        why = report.longrepr[2] if report.outcome == "skipped" else report.longreprtext
        with Path(path).open("a") as file:
            line = {"name": report.nodeid, "outcome": report.outcome, "why": why}
            file.write(json.dumps(line) + "\n")


@pytest.fixture(autouse=True)
def _end_watching():
    yield
    plimsoll.stop_monitoring()


@pytest.fixture
def run(plimsoll_command):
    """Runs the command or a Python program in a folder, as a user does in a shell."""

    def ran(*words, cwd, status=0, env=None, timeout=240):
        words = [str(each) for each in words]
        words[:1] = {"plimsoll": [plimsoll_command], "python": [sys.executable]}[words[0]]
        done = subprocess.run(
            words,
            cwd=cwd,
            env=os.environ | {"NO_COLOR": "1", "OMP_NUM_THREADS": "1"} | (env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done

    return ran
