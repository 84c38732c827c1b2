"""Errors of signal handlers reach the program, wherever in Plimsoll they are raised."""

import os
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

import plimsoll
from plimsoll import _record
from plimsoll._cuda import cuda_hooks
from plimsoll._process.program_errors import Suppressed, leave_to_program


class Optimizer(torch.optim.Optimizer):
    """Counts how often its groups and its state are looked up."""

    lookups = 0

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def __getattribute__(self, name):
        if name in ("param_groups", "state"):
            Optimizer.lookups += 1
        return super().__getattribute__(name)

    def step(self, closure=None):
        pass


class Module(nn.Module):
    lookups = 0

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def __getattribute__(self, name):
        if name in ("_modules", "_parameters", "_buffers"):
            Module.lookups += 1
        return super().__getattribute__(name)

    def forward(self, x):
        return x


class Key:
    """A key of a dict, whose text must not be requested."""

    def __str__(self):
        raise AssertionError

    __repr__ = __str__


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_hooks_run_no_code_of_the_program(mode, tmp_path):
    module = Module()
    optimizer = Optimizer(module.parameters())
    module({Key(): torch.zeros(2)})
    before = Optimizer.lookups, Module.lookups
    with plimsoll.record(tmp_path / "run.plim", adapter="libtorch", mode=mode):
        optimizer.state[optimizer.param_groups[0]["params"][0]] = {Key(): torch.zeros(2)}
        before = before[0] + 2, Module.lookups
        for _ in range(3):
            module({Key(): torch.zeros(2)})
            optimizer.step()
    assert Optimizer.lookups - before[0] == 0
    # Calling an nn.Module makes no lookup here.
    assert Module.lookups - before[1] == 0


# ---- errors of the program
# ---------------------------------------------------------------------------


class TimedOutError(OSError):
    pass


class Handler:
    """Handlers as programs write them: a method, and one that takes any arguments."""

    def method(self, number, frame):
        raise TimedOutError

    def anything(self, *words):
        raise TimedOutError

    def through_another(self, number, frame):
        self.method(number, None)


@pytest.fixture(params=["method", "anything", "through_another"])
def handler(request):
    before = signal.signal(signal.SIGUSR1, getattr(Handler(), request.param))
    yield
    signal.signal(signal.SIGUSR1, before)


def raised_by_signal():
    os.kill(os.getpid(), signal.SIGUSR1)
    for _ in range(100_000):
        pass


def raised_by_call():
    raise TimedOutError


def caught(function):
    try:
        function()
    except TimedOutError as error:
        return error
    raise AssertionError


def test_what_a_handler_raises_is_distinguished_from_what_a_call_raises(handler):
    assert _record.is_raised_by_signal(caught(raised_by_signal))
    assert not _record.is_raised_by_signal(caught(raised_by_call))
    assert not _record.is_raised_by_signal(TimedOutError())
    with pytest.raises(TimedOutError), Suppressed(OSError):
        raised_by_signal()
    with Suppressed(OSError):
        raised_by_call()
    with pytest.raises(TimedOutError):
        leave_to_program(caught(raised_by_signal))
    leave_to_program(caught(raised_by_call))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_of_a_signal_in_a_callback_propagates(handler, tmp_path):
    raising = {"function": raised_by_signal}
    options = {"interval": 1, "output_dir": str(tmp_path), "alert_above": ["1B"]}
    kept = torch.zeros(100)
    monitor = plimsoll.TrainingMonitor(**options, on_alert=lambda _: raising["function"]())
    with pytest.raises(TimedOutError):
        monitor.step()
    monitor.close()
    raising["function"] = raised_by_call
    monitor = plimsoll.TrainingMonitor(**options, on_alert=lambda _: raising["function"]())
    monitor.step()
    monitor.close()
    plimsoll.stop_monitoring()
    del kept


def test_an_error_while_devices_are_queried_is_raised_afterwards(handler):
    _record.set_device_source(raised_by_signal)
    try:
        with pytest.raises(TimedOutError):
            _record.take_sample()
            for _ in range(100_000):
                pass
        _record.set_device_source(raised_by_call)
        _record.take_sample()
    finally:
        _record.set_device_source(None)


def test_a_report_of_a_failed_allocation_leaves_what_a_signal_raises(handler, monkeypatch):
    class Half:
        report_settings = staticmethod(raised_by_call)

    monkeypatch.setattr(cuda_hooks, "_adapter", Half)
    monkeypatch.setattr("plimsoll._oom.oom_report._report", lambda *_: raised_by_call())
    cuda_hooks._ran_out(0, 1, 2, 3, 4, 5)
    monkeypatch.setattr("plimsoll._oom.oom_report._report", lambda *_: raised_by_signal())
    with pytest.raises(TimedOutError):
        cuda_hooks._ran_out(0, 1, 2, 3, 4, 5)


PARTIAL = """
import functools, os, signal, torch, plimsoll
from plimsoll import _record
from plimsoll._torch import attachment
def handler(number, frame): raise TimeoutError
signal.signal(signal.SIGUSR1, handler)
install = attachment.LibtorchAttachment.{method}
def interrupted(self, *words):  # the first time
    attachment.LibtorchAttachment.{method} = install
    install(self, *words)
    os.kill(os.getpid(), signal.SIGUSR1)
attachment.LibtorchAttachment.{method} = interrupted
recording = plimsoll.record("run.plim", adapter="libtorch")
try:
    with recording:
        pass
    raise AssertionError
except TimeoutError:
    pass
assert not attachment._wanted and attachment.attached() is None
assert not _record.is_recording()
with plimsoll.record("again.plim", adapter="libtorch"):
    torch.zeros(3)
"""


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("install", marks=pytest.mark.slow),
        "detach",
        pytest.param("survey", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_recording_leaves_nothing_behind(method, tmp_path):
    program = PARTIAL.format(method=method)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert plimsoll.open(tmp_path / "again.plim").devices
