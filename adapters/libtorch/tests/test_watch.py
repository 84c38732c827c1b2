"""The mode of monitors: between samples little is recorded, right before one everything is."""

import pytest
import torch
from torch import nn
from watching import (
    BACKWARD,
    FORWARD,
    GRADIENT,
    OTHER,
    PARAMETER,
    STATE,
    STEP,
    Recorder,
    allocs,
    tag_names,
    tags,
)


def trained(model, optimizer):
    model(torch.rand(3, 20)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_steps_describe_gradients_alone_and_a_sample_the_rest(library):
    recorder = Recorder(library).attach("watch")
    try:
        model = nn.Linear(20, 30)
        optimizer = torch.optim.Adam(model.parameters())
        trained(model, optimizer)
        trained(model, optimizer)
        events = recorder.take()
        assert tag_names(events, GRADIENT)["Linear.weight"] == 4 * 600
        assert tags(events, STATE) == []
        model.weight = nn.Parameter(torch.rand(30, 20))
        optimizer.param_groups[0]["params"][0] = model.weight
        trained(model, optimizer)
        recorder.describe()
        events = recorder.take()
        assert tag_names(events, PARAMETER)["Linear.weight"] == 4 * 600
        assert tag_names(events, STATE)["Linear.weight.exp_avg"] == 4 * 600
        assert {e["tensor"]["shape"] for e in tags(events, GRADIENT)} == {"[30, 20]", "[30]"}
    finally:
        recorder.detach()


def test_operators_are_observed_when_asked_for(library):
    recorder = Recorder(library).attach("watch")
    try:
        kept = []
        for is_observed in (False, True, False, True):
            recorder.observe(is_observed)
            recorder.take()
            kept.append(torch.rand(10, 10).exp())
            recorder.observe(False)
            events = recorder.take()
            found = {e["outer_op"] for e in allocs(events)}
            assert found == ({"aten::rand", "aten::exp"} if is_observed else {""})
            shapes = [e["tensor"]["shape"] for e in events if e["kind"] == "tag"]
            assert ("[10, 10]" in shapes) == is_observed
    finally:
        recorder.detach()


@pytest.mark.parametrize("mode", ["watch", "lite"])
def test_operators_outside_modules_that_build_the_graph_are_forward(library, mode):
    model, weight = nn.Linear(20, 30), torch.rand(30, 40, requires_grad=True)
    recorder = Recorder(library).attach(mode)

    def phases(run):
        recorder.take()
        result = run()
        large = [e for e in allocs(recorder.take()) if e["size"] > 64]  # not scalars
        return [e["phase"] for e in large], result

    try:
        batch = torch.rand(3, 20)
        kept, output = phases(lambda: model(batch))
        assert set(kept) == {FORWARD}
        assert phases(lambda: torch.rand(100))[0] == [OTHER]  # the nodes were the model's
        kept, loss = phases(lambda: (output @ weight).exp().mul(0.1).sin().square().mean())
        assert kept == [FORWARD] * 5
        kept, _ = phases(lambda: loss.backward(retain_graph=True))
        assert set(kept) == {BACKWARD}
        assert phases(lambda: torch.rand(100))[0] == [OTHER]
        with torch.no_grad():
            assert phases(lambda: output @ weight)[0] == [OTHER]
    finally:
        recorder.detach()


def test_the_full_mode_observes_everything_that_a_monitor_requests(recorder):
    recorder.observe(False)
    recorder.take()
    torch.rand(10)
    assert [e["outer_op"] for e in allocs(recorder.take())] == ["aten::rand"]


def test_a_gradient_of_another_shape_is_described_by_that_shape(library):
    recorder = Recorder(library).attach("watch")
    try:
        weight = nn.Parameter(torch.rand(4, 5))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for shape in ([4, 5], [4, 5], [5, 4], [20]):
            weight.data = weight.data.reshape(shape)
            weight.grad = None
            recorder.take()
            weight.grad = torch.rand(shape)
            optimizer.step()
            reported = [e["tensor"]["shape"] for e in tags(recorder.take(), GRADIENT)]
            assert set(reported) == {str(shape)}
    finally:
        recorder.detach()


def test_a_cheaper_mode_keeps_what_is_known_of_models(recorder):
    model = nn.Linear(20, 30)
    optimizer = torch.optim.Adam(model.parameters())
    trained(model, optimizer)
    recorder.use_cheaper_mode("watch")
    recorder.take()
    torch.rand(10).exp()
    trained(model, optimizer)
    events = recorder.take()
    assert {e["outer_op"] for e in allocs(events)} == {""}
    assert tag_names(events, GRADIENT)["Linear.weight"] == 4 * 600
    assert tags(events, STATE) == []
    assert [e["value"] for e in events if e["kind"] == "mark" and e["mark"] == STEP] == [2]
