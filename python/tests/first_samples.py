"""Programs whose first sample precedes the first step; run by test_first_samples.py.

Usage: first_samples.py WAY. For each sample, prints the bytes by role in it and the bytes that the
program's own tensors have.
"""

import copy
import gc
import json
import sys

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import plimsoll
from plimsoll import _record
from plimsoll._torch import attachment


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(width, width))
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x):
        return self.rest(self.first(x * self.scale))


def size_of(tensors):
    """The bytes of the storages; of a DTensor, only those of its local part."""
    parts = [getattr(each, "_local_tensor", each) for each in tensors if each is not None]
    storages = [each.untyped_storage() for each in parts]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def backward(model):
    model(torch.randn(8, 64)).sum().backward()


def fsdp2(sample):
    """Its gradients are assigned in backward, and are DTensors."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    model = Net()
    for each in (model.first, model.rest[1], model):
        fully_shard(each, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    backward(model)
    sample([model], [optimizer])
    optimizer.step()
    backward(model)
    sample([model], [optimizer])
    dist.destroy_process_group()


def teacher(sample):
    """A copy of the model never runs, so no hook sees it."""
    model = Net()
    backward(model)
    copied = copy.deepcopy(model).requires_grad_(False)
    sample([model, copied], [])
    again = copy.deepcopy(copied)
    sample([model, copied, again], [])


def average(sample):
    model = Net()
    sample([model, AveragedModel(model)], [])


def loaded_state(sample):
    """The optimizer has state before it has made a step."""
    model, other = Net(), Net()
    optimizer = torch.optim.AdamW(model.parameters())
    trained = torch.optim.AdamW(other.parameters())
    backward(other)
    trained.step()
    state = trained.state_dict()
    optimizer.load_state_dict(copy.deepcopy(state))
    del other, trained, state
    gc.collect()
    sample([model], [optimizer])


def loaded_model(sample):
    """The parameters of a known model are replaced."""
    model = Net()
    sample([model], [])
    state = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    del state
    sample([model], [])
    model.double()
    sample([model], [])


def assigned_gradients(sample):
    model = Net()
    backward(model)
    sample([model], [])
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    sample([model], [])


def bytes_of(models, optimizers):
    states = [state for each in optimizers for state in each.state.values()]
    parameters = [each for model in models for each in model.parameters()]
    return {
        "parameter": size_of(parameters),
        "gradient": size_of(each.grad for each in parameters),
        "buffer": size_of(each for model in models for each in model.buffers()),
        "optimizer_state": size_of(value for state in states for value in state.values()),
    }


PROGRAMS = (teacher, average, loaded_state, loaded_model, assigned_gradients, fsdp2)


def main(way):
    take_sample = _record.take_sample
    taken = []

    def keep_sample(*args, **kwargs):
        taken.append(take_sample(*args, **kwargs))
        return taken[-1]

    _record.take_sample = keep_sample

    def sample(models, optimizers):
        taken.clear()
        if way == "survey":  # the search when memory runs out, and at the end of a recording
            _record.set_describer(None)
            attachment.attached().survey()
        if way == "breakdown":
            plimsoll.log_tensor_memory_breakdown(None, 0, interval=1)
        else:
            _record.take_sample()
        (row,) = [each for each in taken[0].devices if each.name == "cpu"]
        found = {each.name: each.size_bytes for each in row.categories}
        wanted = bytes_of(models, optimizers)
        row = {"program": program.__name__, "found": {name: found.get(name, 0) for name in wanted}}
        print(json.dumps(row | {"is": wanted}))

    for program in PROGRAMS:
        gc.collect()
        if way == "breakdown":
            program(sample)
            plimsoll.stop_monitoring()
        elif (way, program) != ("fallback", fsdp2):  # the fallback does not see into DTensors
            adapter = "python" if way == "fallback" else "libtorch"
            mode = "lite" if way in ("lite", "survey") else "full"
            with plimsoll.record(f"{program.__name__}.plim", mode=mode, adapter=adapter):
                program(sample)


if __name__ == "__main__":
    main(*sys.argv[1:])
