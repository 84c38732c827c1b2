"""The roles of tensors, as modules and optimizers define them."""

import copy
import gc
import time

import pytest
import torch
from torch import nn
from watching import (
    BUFFER,
    GRADIENT,
    INPUT,
    KNOWN,
    PARAMETER,
    STATE,
    tag_names,
    tags,
)


class Net(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.first = nn.Linear(width, 20)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(20, 5))

    def forward(self, x):
        return self.rest(self.first(x))


def test_parameters_gradients_and_state_have_names(recorder):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(7, 10)).sum().backward()
    optimizer.step()
    events = recorder.take()
    sizes = {
        "Net.first.weight": 800,
        "Net.first.bias": 80,
        "Net.rest.1.weight": 400,
        "Net.rest.1.bias": 20,
    }
    assert tag_names(events, PARAMETER) == sizes
    assert tag_names(events, GRADIENT) == sizes
    state = tag_names(events, STATE)
    assert {k: v for k, v in state.items() if k.endswith("exp_avg")} == {
        f"{name}.exp_avg": size for name, size in sizes.items()
    }
    assert len(state) == 12


def test_buffers_have_names_also_when_they_are_replaced(recorder):
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            self.mean = self.mean * 0.9 + x.mean(0).detach()
            return x * self.weight

    model = Mean()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).sum().backward()
    recorder.take()
    optimizer.step()
    (reported,) = tags(recorder.take(), BUFFER)
    assert reported["tensor"]["name"] == "Mean.mean"
    assert reported["address"] == model.mean.data_ptr()


def test_inputs_of_the_root_are_inputs_and_outputs_are_not(recorder):
    net, loss = Net(), nn.MSELoss()
    x, y = torch.randn(7, 10), torch.randn(7, 5)
    recorder.take()
    loss(net(x), target=y)
    reported = {e["address"]: e["tensor"]["name"] for e in tags(recorder.take(), INPUT)}
    assert reported == {x.data_ptr(): "args[0]", y.data_ptr(): "target"}


def test_an_output_without_a_graph_is_no_input_when_it_comes_back(recorder):
    net = nn.Linear(4, 4)
    x = torch.randn(2, 4)
    with torch.no_grad():
        first = net(x)
        recorder.take()
        net(first)
    assert tags(recorder.take(), INPUT) == []


def test_nested_inputs_are_found(recorder):
    class Deep(nn.Module):
        def forward(self, batch, *, mask):
            return batch["a"][0] + mask

    a, mask = torch.randn(3), torch.randn(3)
    nn.Linear(1, 1)(a[:1])  # a new class is noticed at the next call of a known module
    recorder.take()
    Deep()({"a": [a]}, mask=mask)
    reported = {e["tensor"]["name"] for e in tags(recorder.take(), INPUT)}
    assert reported == {"args[0].a[0]", "mask"}


def test_outputs_report_dtype_and_shape(recorder):
    net = Net()
    recorder.take()
    out = net(torch.randn(7, 10))
    reported = [e for e in tags(recorder.take(), KNOWN) if e["address"] == out.data_ptr()]
    assert [(e["tensor"]["dtype"], e["tensor"]["shape"]) for e in reported] == [
        ("float32", "[7, 5]")
    ]


def test_shared_modules_and_shared_parameters_have_one_name(recorder):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = self.a
            self.c = nn.Linear(4, 4, bias=False)
            self.c.weight = self.a.weight

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    recorder.take()
    Tied()(torch.randn(2, 4))
    assert tag_names(recorder.take(), PARAMETER) == {"Tied.a.weight": 64}


def test_a_copy_of_a_model_that_never_runs_has_parameters(recorder):
    net = Net()
    average = copy.deepcopy(net)
    recorder.take()
    recorder.survey()
    reported = {e["address"] for e in tags(recorder.take(), PARAMETER)}
    assert {p.data_ptr() for p in average.parameters()} <= reported


def test_deleting_a_model_frees_it(recorder):
    net = Net()
    net(torch.randn(1, 10))
    before = recorder.live_bytes
    del net
    assert before - recorder.live_bytes == 800 + 80 + 400 + 20


def test_swapped_data_and_new_parameters_are_found_at_the_step(recorder):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(1, 10)).sum().backward()
    optimizer.step()
    net.first.weight.data = torch.randn(20, 10)
    points = nn.Parameter(torch.randn(100, 3))
    optimizer.add_param_group({"params": [points], "name": "points"})
    recorder.take()
    optimizer.step()
    reported = {e["address"]: e["tensor"]["name"] for e in tags(recorder.take(), PARAMETER)}
    assert reported == {
        net.first.weight.data_ptr(): "Net.first.weight",
        points.data_ptr(): "SGD.points",
    }


class Points:
    """Has parameters and an optimizer, and is no module."""

    def __init__(self, count):
        self._xyz = nn.Parameter(torch.randn(count, 3))
        self.scale = nn.Parameter(torch.ones(count))
        self.denom = torch.zeros(count, 1)
        groups = [{"params": [self._xyz]}, {"params": [self.scale], "name": "scaling"}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)

    def step(self):
        (self._xyz * self.scale[:, None]).sum().backward()
        self.optimizer.step()


def test_owners_of_one_class_have_numbers_and_are_sought_seldom(recorder):
    kept, names = [], set()
    until = time.monotonic() + 60  # searches take at most a hundredth of the time
    while "Points#2._xyz" not in names and time.monotonic() < until:
        kept.append(Points(50))
        kept[-1].step()
        names |= set(tag_names(recorder.take(), PARAMETER))
        time.sleep(0.1)
    assert {"Points._xyz", "Points#2._xyz"} <= names
    for _ in range(40):
        kept.append(Points(50))
        kept[-1].step()
    found = {name for name in tag_names(recorder.take(), PARAMETER) if name.endswith("._xyz")}
    assert len(found) < 10


@pytest.mark.parametrize("has_dict", [False, True])
def test_tensors_of_the_object_that_has_the_optimizer_are_named_by_its_attributes(
    recorder, has_dict
):
    points = Points(50)
    assert not has_dict or vars(points)
    points.step()
    events = recorder.take()
    assert tag_names(events, PARAMETER) == {"Points._xyz": 600, "SGD.scaling": 200}
    assert tag_names(events, KNOWN)["Points.denom"] == 200
    assert tag_names(events, STATE)["Points._xyz.momentum_buffer"] == 600
    points.denom = torch.zeros(99)
    points.optimizer.step()
    assert tag_names(recorder.take(), KNOWN)["Points.denom"] == 396


def test_parameters_replaced_without_an_optimizer_are_found_at_the_next_forward(recorder):
    net = Net()
    weights = []
    for _ in range(3):
        net(torch.randn(1, 10)).sum().backward()
        weight = net.first.weight
        weight.data = weight.data - 0.1 * weight.grad
        weight.grad.zero_()
        weights.append(weight.data_ptr())
        recorder.take()
        net(torch.randn(1, 10))
        named = {e["address"]: e["tensor"]["name"] for e in tags(recorder.take(), PARAMETER)}
        assert named == {weights[-1]: "Net.first.weight"}


def test_modules_put_into_a_known_model_are_named_without_a_forward(recorder):
    model = nn.Sequential(nn.Linear(10, 20, bias=False))
    model(torch.randn(1, 10))
    recorder.take()
    model.append(nn.Sequential(nn.Linear(20, 5, bias=False), nn.BatchNorm1d(5)))
    recorder.describe()
    events = recorder.take()
    named = {e["tensor"]["name"] for e in tags(events, PARAMETER)}
    assert named == {"Sequential.1.0.weight", "Sequential.1.1.weight", "Sequential.1.1.bias"}
    assert "Sequential.1.1.running_mean" in {e["tensor"]["name"] for e in tags(events, BUFFER)}


def test_gradients_set_by_hand_are_gradients(recorder):
    parameter = nn.Parameter(torch.zeros(5))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.ones(5)
    recorder.take()
    optimizer.step()
    assert [e["address"] for e in tags(recorder.take(), GRADIENT)] == [parameter.grad.data_ptr()]


def test_swapped_parameters_get_the_names_of_their_modules(recorder):
    net = nn.Linear(10, 20)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step():
        net(torch.ones(3, 10)).sum().backward()
        recorder.take()
        optimizer.step()
        reported = recorder.take()
        return tag_names(reported, PARAMETER), tag_names(reported, GRADIENT)

    step()
    net.zero_grad()
    torch.utils.swap_tensors(net.weight, nn.Parameter(torch.ones(20, 10)))
    address = net.weight.data_ptr()
    parameters, _ = step()
    assert parameters == {"Linear.weight": 800}
    net.zero_grad()
    net(torch.ones(3, 10)).sum().backward()
    (reported,) = [e for e in tags(recorder.take(), GRADIENT) if e["size"] == 800]
    assert reported["tensor"]["name"] == "Linear.weight"
    assert net.weight.data_ptr() == address


def test_the_same_memory_in_a_new_parameter_keeps_its_name(recorder):
    net = nn.Linear(10, 20)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(3, 10)).sum().backward()
    optimizer.step()
    net.weight = nn.Parameter(net.weight.detach())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(3, 10)).sum().backward()
    optimizer.step()
    net.zero_grad()
    recorder.take()
    net(torch.ones(3, 10)).sum().backward()
    assert tag_names(recorder.take(), GRADIENT) == {"Linear.weight": 800, "Linear.bias": 80}


def test_a_tensor_at_the_address_of_a_dead_parameter_is_no_parameter(recorder):
    def tensor_at(address):
        kept = []
        for _ in range(10_000):
            tensor = torch.ones(20, 10, requires_grad=True)
            if tensor._cdata == address:
                return tensor
            kept.append(tensor)
        return None

    found = 0
    for _ in range(10):
        net = nn.Linear(10, 20)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3, 10)).sum().backward()
        optimizer.step()
        address = net.weight._cdata
        del net, optimizer
        gc.collect()
        tensor = tensor_at(address)
        if tensor is None:
            continue
        found += 1
        recorder.take()
        (tensor * 2).sum().backward()
        assert tags(recorder.take(), GRADIENT) == []
    if found == 0:
        pytest.skip("this heap has used no parameter's address again")
