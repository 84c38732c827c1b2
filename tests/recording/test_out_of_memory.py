"""A failed allocation on the CPU, from the program to the report."""

import pytest
import torch
from torch import nn

import plimsoll


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1000, 1000)

    def forward(self, x):
        return self.linear(x) + torch.empty(10**15)


def out_of_memory(trace):
    return [f for f in trace.findings if f["id"] == "out_of_memory"]


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_program_that_an_out_of_memory_error_ends(tmp_path, mode):
    net = Net()
    path = tmp_path / "run.plim"
    with pytest.raises(RuntimeError, match="CPUAllocator"), plimsoll.record(path, mode=mode):
        net(torch.ones(3, 1000))
    trace = plimsoll.open(tmp_path / "run.plim", at="oom")
    (finding,) = out_of_memory(trace)
    assert finding["severity"] == "critical"
    (device,) = trace.devices
    (details,) = device["oom_details"]
    assert details["requested_bytes"] == 4 * 10**15
    assert details["cause"] == "one_large_request"
    if mode == "full":
        assert "test_out_of_memory.py:" in details["line"]
        assert "(Net.forward)" in finding["title"]
    parameters = {row["key"]: row["bytes"] for row in trace.tables["by_category"]}["parameter"]
    assert parameters >= 4_004_000


def test_a_program_that_continues_gets_a_warning(tmp_path):
    with plimsoll.record(tmp_path / "run.plim"):
        for _ in range(2):
            with pytest.raises(RuntimeError):
                torch.empty(10**15)
        for _ in range(600):
            torch.ones(3)
    (finding,) = out_of_memory(plimsoll.open(tmp_path / "run.plim"))
    assert finding["severity"] == "warning"
    assert any("failed 2 times in a row" in each for each in finding["evidence"])


def test_a_program_that_has_enough_has_no_finding(tmp_path):
    with plimsoll.record(tmp_path / "run.plim"):
        torch.ones(3)
    trace = plimsoll.open(tmp_path / "run.plim")
    assert out_of_memory(trace) == []
    assert trace.devices[0]["oom_details"] == []
