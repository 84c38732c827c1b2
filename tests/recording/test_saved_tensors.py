"""What a recording counts as saved for backward is what hooks on saved tensors count."""

import torch
from tests.causes.architectures import Experts
from torch.autograd.graph import saved_tensors_hooks

import plimsoll


def test_a_mixture_of_experts_saves_what_hooks_count(tmp_path):
    torch.manual_seed(0)
    model, x = Experts(32, 4), torch.randn(16, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    of_others = {each.untyped_storage().data_ptr() for each in (*model.parameters(), x)}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with plimsoll.record(tmp_path / "run.plim"):
        for _ in range(3):
            saved.clear()
            with saved_tensors_hooks(pack, lambda tensor: tensor):
                loss = model(x).square().mean()
            by_hooks = sum(size for place, size in saved.items() if place not in of_others)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    tables = plimsoll.open(tmp_path / "run.plim").tables
    assert tables["saved"][0]["bytes"] == by_hooks
    layers = {row["layer"]: row["inclusive"]["saved_bytes"] for row in tables["layers"]}
    assert layers["Experts"] == by_hooks
