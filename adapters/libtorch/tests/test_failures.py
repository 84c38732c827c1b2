"""Allocations on the CPU that fail: the program gets torch's exception, the recorder the size."""

import inspect
import resource
import threading

import pytest
import torch
from torch import nn
from watching import BACKWARD, FORWARD, allocs

TOO_MANY = 10**15


def failures(events):
    return [e for e in events if e["kind"] == "out_of_memory"]


def message_of(size):
    try:
        torch.empty(size)
    except RuntimeError as error:
        return type(error), str(error)
    raise AssertionError("there was memory for it")


def test_the_exception_is_torchs_own(recorder):
    recorded = message_of(TOO_MANY)
    recorder.detach()
    assert recorded == message_of(TOO_MANY)
    assert "DefaultCPUAllocator" in recorded[1]


def test_a_failure_has_its_request_operator_and_line(recorder):
    recorder.take()
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(RuntimeError):
        torch.empty(TOO_MANY)
    (failed,) = failures(events := recorder.take())
    assert (failed["requested"], failed["size"], failed["device"]) == (4 * TOO_MANY,) * 2 + (0,)
    assert failed["outer_op"] == "aten::empty"
    assert recorder.stack(failed)[0][:2] == (__file__, line)
    assert 0 < failed["free"] < failed["total"]
    assert allocs(events) == []


class Huge(nn.Module):
    def forward(self, x):
        return x.expand(TOO_MANY).clone()


def test_a_failure_has_its_layer_and_phase(recorder):
    net = nn.Sequential(Huge())
    x = torch.ones(1, requires_grad=True)
    recorder.take()
    with pytest.raises(RuntimeError):
        net(x)
    (failed,) = failures(recorder.take())
    assert (failed["layer"], failed["phase"]) == ("Sequential.0", FORWARD)
    torch.ones(3)
    (later,) = allocs(recorder.take(), size=12)
    assert later["layer"] == ""


def test_a_failure_in_backward_is_of_the_forward_operator(recorder):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.empty(TOO_MANY)

    x = torch.ones(1, requires_grad=True)
    y = Doubled.apply(x)
    recorder.take()
    with pytest.raises(RuntimeError):
        y.backward()
    (failed,) = failures(recorder.take())
    assert failed["phase"] == BACKWARD


def test_a_limit_of_the_process_is_recorded(recorder):
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = 1 << 40
    recorder.take()
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        with pytest.raises(RuntimeError):
            torch.empty(TOO_MANY)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    (failed,) = failures(recorder.take())
    assert failed["limit"] == limit


def test_failures_on_many_threads_leave_the_recorder_working(recorder):
    def work():
        for _ in range(20):
            message_of(TOO_MANY)
            torch.ones(3)

    recorder.take()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = recorder.take()
    assert len(failures(events)) == len(allocs(events, size=12)) == 80
