"""Programs in which the adapter replaces the fallback of a monitor; run by test_switching.py.

Usage: switching.py CASE. Whether the adapter is compiled is faked; it must be in the cache.
"""

import contextlib
import gc
import sys

import torch

import plimsoll
from plimsoll import _record
from plimsoll._process.messages import print_notice
from plimsoll._torch import attachment
from plimsoll._torch.adapter import NotCompiledError

load = attachment._load
is_compiled = False


class FakeCompilation:
    since_ns, log = 0, "background.txt"

    def __init__(self, folder):
        assert folder == "cache"

    def has_ended(self):
        return is_compiled


def load_if_compiled(say, elsewhere_since_ns=None):
    if elsewhere_since_ns is not None and not is_compiled:
        raise NotCompiledError("cache")
    load(say, elsewhere_since_ns)


attachment.Compilation, attachment._load = FakeCompilation, load_if_compiled


def compiled():
    global is_compiled
    is_compiled = True


def kind():
    return attachment.attached().kind


def cpu(span=None):
    (row,) = [each for each in _record.take_sample(peak_since=span).devices if each.name == "cpu"]
    return row


def categories():
    return {each.name: each.size_bytes for each in cpu().categories if each.size_bytes}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(256, 512), torch.nn.Linear(512, 8)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def training():
    """The samples of a training that ends its steps in the same state are equal throughout."""
    gc.collect()
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    batches = [torch.randn(32, 256) for _ in range(4)]
    monitor = plimsoll.TrainingMonitor(interval=1, text_log=False)
    assert kind() == "python"
    found = []
    for number in range(16):
        if number == 8:
            compiled()
        optimizer.zero_grad()
        loss = model(batches[number % 4]).pow(2).mean()
        loss.backward()
        optimizer.step()
        del loss
        if number > 2:
            found.append((cpu().live_bytes, categories()))
        monitor.step()
        assert kind() == ("python" if number < 8 else "libtorch")
    assert [each for each in found if each != found[0]] == []
    parameters = sum(each.nbytes for each in model.parameters())
    shares = found[0][1]
    assert shares["parameter"] == shares["gradient"] == parameters
    assert shares["optimizer_state"] == 2 * parameters + 4 * 4
    assert sum(shares.values()) == found[0][0]
    monitor.close()


def old_memory():
    """What was recorded before is freed once, even if only the autograd graph retains it."""
    plimsoll.MemoryTracker()
    before = cpu().live_bytes
    kept = torch.zeros(1000)
    x = torch.randn(500, requires_grad=True)
    y = x.exp().sum()  # exp's result is retained by the graph alone
    resized = torch.zeros(100)
    resized.resize_(5000)
    emptied = torch.zeros(700)
    emptied.untyped_storage().resize_(0)
    moved = torch.zeros(10)
    moved.untyped_storage().resize_(4 * 2000)
    retained = cpu().live_bytes
    with plimsoll.track_memory("block") as block:
        torch.zeros(1 << 20)
        assert kind() == "python"
        compiled()
        attachment.switch_if_ready(print_notice)
        assert kind() == "libtorch"
    live = before + 4 * (1000 + 500 + 500 + 1 + 5000 + 2000)
    assert cpu().live_bytes == live, cpu().live_bytes - live
    assert retained >= live - 4 * 2000
    assert block.peak_bytes >= live + (4 << 20) - 4 * 2000
    del kept
    assert cpu().live_bytes == live - 4 * 1000
    del resized
    assert cpu().live_bytes == live - 4 * 6000
    del moved, emptied
    live -= 4 * 8000
    assert cpu().live_bytes == live
    y.backward()  # its gradient replaces what the graph retained
    assert cpu().live_bytes == live
    del x, y
    assert cpu().live_bytes == before


def places():
    """The switch waits for the end of a forward, a backward and a step."""
    seen = []

    def switch(*_):
        attachment.switch_if_ready(print_notice)
        seen.append(kind())

    class Switching(Net):
        def forward(self, x):
            y = super().forward(x)
            switch()
            y.register_hook(switch)
            return y

    model = Switching()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    plimsoll.MemoryTracker()
    compiled()

    def closure():
        switch()
        optimizer.zero_grad()
        loss = model(torch.randn(4, 256)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert set(seen) == {"python"}, seen
    switch()
    assert seen[-1] == "libtorch"


def recording():
    """An exact recording does not inherit the fallback of a monitor."""
    kept = torch.zeros(1000)
    plimsoll.MemoryTracker()
    during = torch.zeros(3000)
    compiled()
    with plimsoll.record("run.plim") as recording:
        assert kind() == "libtorch"
        del kept
    assert recording.state["unmatched"] == recording.state["replaced"] == 0
    frees = plimsoll.open("run.plim").events.to_pydict()
    assert [
        size
        for size, action in zip(frees["size_bytes"], frees["action"], strict=True)
        if action.startswith("free") and size > 1000
    ] == [4000]
    del during
    plimsoll.stop_monitoring()
    assert attachment.attached() is None


def waiting():
    """A recording waits for the compiler, and a monitor that starts again does not."""
    plimsoll.MemoryTracker()
    plimsoll.stop_monitoring()
    plimsoll.MemoryTracker()
    assert kind() == "python"
    with plimsoll.record("run.plim"):
        assert kind() == "libtorch"
    assert kind() == "libtorch"


def steps():
    """The number of the step goes on."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tracker = plimsoll.MemoryTracker()
    recording = _record.Recording(b"", False, 0, False, True, False, {})
    for _ in range(3):
        optimizer.step()
    compiled()
    tracker.record("here")
    optimizer.step()
    assert kind() == "libtorch"
    assert recording.since_step(0)[0] == 4
    recording.take()


def fails():
    """The fallback stays, and a line has the place of the log."""
    global load

    def load(*_):
        raise plimsoll.AdapterError("the adapter did not compile; see cache/log.txt")

    tracker = plimsoll.MemoryTracker()
    compiled()
    for _ in range(3):
        tracker.record("here")
    assert kind() == "python"


def ends_early():
    """The background process was killed."""
    global load

    def load(_, elsewhere_since_ns):
        raise NotCompiledError("cache")

    tracker = plimsoll.MemoryTracker()
    compiled()
    for _ in range(3):
        tracker.record("here")
    assert kind() == "python"


def interrupted():
    """A switch that fails leaves the fallback as it was."""
    tracker = plimsoll.MemoryTracker()
    before = cpu().live_bytes
    kept = torch.zeros(1000)
    survey = attachment.LibtorchAttachment.survey

    def interrupt(*_):
        raise KeyboardInterrupt

    attachment.LibtorchAttachment.survey = interrupt
    compiled()
    with contextlib.suppress(KeyboardInterrupt):
        tracker.record("here")
    assert kind() == "python"
    more = torch.zeros(2000)
    assert cpu().live_bytes == before + 4 * 3000
    attachment.LibtorchAttachment.survey = survey
    tracker.record("here")
    assert kind() == "libtorch"
    assert cpu().live_bytes == before + 4 * 3000
    del kept, more
    assert cpu().live_bytes == before


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
