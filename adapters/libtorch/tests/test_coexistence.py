"""torch.compile, torch.fx, torch.jit, torch.profiler and forks see an unmodified torch."""

import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from watching import FORWARD, Recorder, allocs, marks


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index))


def test_what_python_sees_of_modules_is_untouched(library):
    before = dict(vars(nn.Module)), nn.Module.__call__, len(gc_hooks())
    recorder = Recorder(library).attach()
    assert dict(vars(nn.Module)) == before[0]
    assert nn.Module.__call__ is before[1]
    recorder.detach()
    assert len(gc_hooks()) == before[2]


def gc_hooks():
    from torch.nn.modules import module

    return [
        hook
        for name, hooks in vars(module).items()
        if name.startswith("_global") and isinstance(hooks, dict)
        for hook in hooks
    ]


def test_no_hook_is_left_after_detaching(library):
    import importlib

    optimizers = importlib.import_module("torch.optim.optimizer")
    recorder = Recorder(library).attach()
    recorder.detach()
    assert gc_hooks() == []
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks
    assert not torch._C._autograd._profiler_enabled()


def test_compiled_models_work_in_one_graph(recorder):
    net = Net()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    x = torch.randn(3, 6)
    assert torch.allclose(compiled(x), net(x))
    compiled(x).sum().backward()
    recorder.take()
    compiled(x)
    layers = {e["layer"] for e in allocs(recorder.take(), phase=FORWARD)}
    assert {layer.split(".")[0] for layer in layers} == {"Net"}


def test_tracing_with_fx_works_and_calls_are_watched_again_afterwards(recorder):
    net = Net()
    graph = torch.fx.symbolic_trace(net)
    x = torch.randn(3, 6)
    assert torch.allclose(graph(x), net(x))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x).sum().backward()
    optimizer.step()
    recorder.take()
    net(x)
    layers = [e["layer"] for e in allocs(recorder.take(), phase=FORWARD)]
    assert set(layers) == {layers[-1], f"{layers[-1]}.linear"}


@pytest.mark.filterwarnings("ignore")
def test_torchscript_works(recorder):
    net, x = Net(), torch.randn(3, 6)
    expected = net(x)
    assert torch.allclose(torch.jit.script(net)(x), expected)
    assert torch.allclose(torch.jit.trace(net, x)(x), expected)


def test_the_profiler_works_at_the_same_time(recorder):
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.randn(1000).sin()
    assert len(allocs(recorder.take(), size=4000)) == 2
    names = {event.name for event in profile.events()}
    assert {"aten::sin", "[memory]"} <= names


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_workers(recorder, workers):
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers)
    assert [batch.sum().item() for batch in loader] == [24.0, 88.0]


def test_ten_thousand_steps_leave_nothing_behind(recorder):
    net, x = nn.Linear(2, 2), torch.randn(1, 2)
    for _ in range(1000):
        nn.ReLU()(net(x)).sum().backward()
    recorder.forget()
    before = recorder.live_bytes
    references = sys.getrefcount(None), sys.getrefcount(nn.Linear)
    for _ in range(9000):
        nn.ReLU()(net(x)).sum().backward()
    recorder.forget()
    assert recorder.live_bytes == before
    assert abs(sys.getrefcount(None) - references[0]) < 500
    assert abs(sys.getrefcount(nn.Linear) - references[1]) < 5
    assert marks(recorder.take(), 0) == []


def test_stacks_name_the_line_of_the_call(recorder):
    def innermost():
        return torch.randn(31)

    kept = [innermost(), innermost()]
    line = innermost.__code__.co_firstlineno + 1
    events = allocs(recorder.take(), size=124)
    for event in events:
        file, number, name = recorder.stack(event)[0]
        assert file == __file__
        assert number == line
        assert name.endswith("innermost")
    assert events[0]["stack"] != events[1]["stack"]  # two call sites on one line
    del kept
