"""Tensors without memory of their own: wrapper subclasses, nested and sparse tensors."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.utils._pytree import tree_map
from watching import BUFFER, GRADIENT, INPUT, PARAMETER, STATE, tags


class Scaled(torch.Tensor):
    """Integers and their scales, like quantized weights. Counts the calls of its methods."""

    asked = 0

    @staticmethod
    def __new__(cls, integers, scales, **_):
        return torch.Tensor._make_wrapper_subclass(
            cls, integers.shape, dtype=scales.dtype, requires_grad=False
        )

    def __init__(self, integers, scales):
        self.integers = integers
        self.scales = scales

    def __tensor_flatten__(self):
        Scaled.asked += 1
        return ["integers", "scales"], None

    def __getattribute__(self, name):
        Scaled.asked += 1
        return super().__getattribute__(name)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Scaled(args[0].integers, args[0].scales)
        plain = tree_map(
            lambda x: x.integers * x.scales if isinstance(x, Scaled) else x, (args, kwargs or {})
        )
        return func(*plain[0], **plain[1])


class InSlots(Scaled):
    """The same, without a dict entry."""

    __slots__ = ("inner",)

    def __init__(self, integers, scales):
        self.inner = integers
        super().__init__(integers, scales)
        del self.__dict__["integers"]


def addresses(events, role):
    return {e["address"]: e["tensor"]["name"] for e in tags(events, role)}


def scaled(cls=Scaled):
    return cls(torch.ones(8, 6, dtype=torch.int8), torch.ones(8, 1))


@pytest.fixture(scope="module")
def mesh():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield DeviceMesh("cpu", [0])
    dist.destroy_process_group()


def test_the_parts_of_a_quantized_weight_are_the_parameter(recorder):
    net = nn.Linear(6, 8)
    net.weight = nn.Parameter(scaled(), requires_grad=False)
    weight = net.weight
    integers, scales = weight.integers.data_ptr(), weight.scales.data_ptr()
    x = torch.randn(2, 6)
    recorder.take()
    Scaled.asked = 0
    recorder.survey()
    assert Scaled.asked == 0
    found = addresses(recorder.take(), PARAMETER)
    assert found[integers] == found[scales] == "Linear.weight"
    net(x)


def test_parts_in_slots_and_wrappers_of_wrappers_are_found(recorder):
    net = nn.Module()
    outer = Scaled(scaled(InSlots), torch.ones(3))
    net.register_buffer("table", outer)
    inner, deeper = outer.scales.data_ptr(), outer.integers.inner.data_ptr()
    recorder.take()
    recorder.survey()
    found = addresses(recorder.take(), BUFFER)
    assert found[inner] == found[deeper] == "Module.table"


def test_a_wrapper_that_contains_itself_ends(recorder):
    net = nn.Module()
    outer = scaled()
    outer.again = outer
    net.register_buffer("table", outer)
    scales = outer.scales.data_ptr()
    recorder.survey()
    assert addresses(recorder.take(), BUFFER)[scales] == "Module.table"
    del outer.again


def local(tensor):
    return tensor.to_local().untyped_storage().data_ptr()


@pytest.mark.parametrize("gradient_lives", [True, False])
def test_distributed_tensors_have_their_names_and_roles(recorder, mesh, gradient_lives):
    net = nn.Linear(6, 8)
    for name, parameter in list(net.named_parameters()):
        setattr(net, name, nn.Parameter(DTensor.from_local(parameter.detach(), mesh, [Shard(0)])))
    optimizer = torch.optim.Adam(net.parameters())
    x = DTensor.from_local(torch.randn(2, 6), mesh)
    recorder.take()
    net(x).to_local().sum().backward()
    gradients = {local(p.grad): f"Linear.{name}" for name, p in net.named_parameters()}
    if gradient_lives:
        optimizer.step()
    else:  # recorded when it was made, not at the step
        optimizer.zero_grad()
    events = recorder.take()
    assert addresses(events, PARAMETER) == {
        local(p): f"Linear.{name}" for name, p in net.named_parameters()
    }
    assert addresses(events, GRADIENT) == gradients
    assert addresses(events, INPUT) == {local(x): "args[0]"}
    if gradient_lives:
        state = addresses(events, STATE)
        for name, parameter in net.named_parameters():
            for key in ("exp_avg", "exp_avg_sq"):
                assert state[local(optimizer.state[parameter][key])] == f"Linear.{name}.{key}"


def test_what_has_not_changed_is_recorded_once(recorder, mesh):
    net = nn.Linear(6, 8, bias=False)
    net.weight = nn.Parameter(DTensor.from_local(net.weight.detach(), mesh, [Shard(0)]))
    optimizer = torch.optim.Adam(net.parameters())
    x = DTensor.from_local(torch.randn(2, 6), mesh)
    for _ in range(2):
        recorder.take()
        net(x).to_local().sum().backward()
        optimizer.step()
    events = recorder.take()
    assert tags(events, PARAMETER) == tags(events, STATE) == []


def test_nested_parameters_are_found_by_their_values(recorder):
    values = torch.randn(7, 4)
    weight = nn.Parameter(torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 3, 7])))
    net = nn.ParameterDict({"weight": weight})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    recorder.take()
    recorder.survey()
    (weight * 2).values().sum().backward()
    gradient = weight.grad.values().data_ptr()
    optimizer.step()
    events = recorder.take()
    assert addresses(events, PARAMETER)[weight.values().data_ptr()] == "ParameterDict.weight"
    assert addresses(events, GRADIENT)[gradient] == "ParameterDict.weight"


def test_sparse_gradients_are_gradients(recorder):
    net = nn.Embedding(100, 16, sparse=True)
    optimizer = torch.optim.SparseAdam(net.parameters())
    rows = torch.tensor([3, 5, 3])
    recorder.take()
    net(rows).sum().backward()
    gradient = net.weight.grad
    parts = {gradient._indices().data_ptr(), gradient._values().data_ptr()}
    found = tags(recorder.take(), GRADIENT)
    assert {e["address"] for e in found} >= parts
    assert {e["tensor"]["name"] for e in found} == {"Embedding.weight"}
    optimizer.step()


def test_sparse_inputs_are_inputs(recorder):
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 2))

        def forward(self, edges):
            return edges @ self.weight

    edges = torch.eye(4).to_sparse_coo()
    rows = torch.eye(4).to_sparse_csr()
    net = Graph()
    recorder.survey()
    recorder.take()
    net(edges)
    net(rows)
    found = addresses(recorder.take(), INPUT)
    assert {edges._values().data_ptr(), edges._indices().data_ptr()} <= set(found)
    assert {rows.values().data_ptr(), rows.crow_indices().data_ptr()} <= set(found)


def test_a_buffer_of_several_gradients_has_the_name_of_none(recorder):
    net = nn.Linear(10, 20)
    buffer = torch.zeros(220)
    net.weight.grad = buffer[:200].view(20, 10)
    net.bias.grad = buffer[200:]
    recorder.survey()
    torch.optim.SGD([net.bias, net.weight], lr=0.1).step()
    found = [e for e in tags(recorder.take(), GRADIENT) if e["address"] == buffer.data_ptr()]
    assert found[0]["tensor"]["name"] in ("gradients of several parameters", "Linear.weight")
    (shared,) = [e["tensor"] for e in found if e["tensor"]["name"] != "Linear.weight"][:1]
    assert (shared["name"], shared["shape"]) == ("gradients of several parameters", "[220]")


def test_a_gradient_that_is_a_view_of_nearly_all_keeps_its_name(recorder):
    net = nn.Linear(10, 20, bias=False)
    padded = torch.zeros(256)
    net.weight.grad = padded[:200].view(20, 10)
    recorder.survey()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    found = [e for e in tags(recorder.take(), GRADIENT) if e["address"] == padded.data_ptr()]
    assert {e["tensor"]["name"] for e in found} == {"Linear.weight"}
