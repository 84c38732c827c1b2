"""Programs of public reports, shortened. expected_reported.tsv has the expected findings."""

from __future__ import annotations

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.func import functional_call, jacrev
from torch.utils.checkpoint import checkpoint

BEFORE = frozenset(PROGRAMS)


@standalone("reported")
def jacobian_of_all_rows(steps=2):
    """pytorch/functorch#636: one backward for each of the 128 outputs, all at once."""
    model = nn.Sequential(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.Conv2d(6, 16, 5), nn.Flatten())
    model.append(nn.Linear(16 * 20 * 20, 128))
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def outputs(x):
        return functional_call(model, parameters, (x[None],))[0]

    for _ in range(steps):
        jacrev(outputs)(torch.randn(1, 28, 28))


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 2048), nn.Linear(2048, 64)

    def forward(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            x = torch.relu(self.inner(x))
        return self.outer(x)


@standalone("recomputed")  # it leaks, so it is recorded in a process of its own
def hooks_inside_a_checkpoint(steps=12):
    """pytorch/pytorch#115255: what the checkpoint recomputes is never freed."""
    layers = nn.ModuleList(Wide() for _ in range(3))
    optimizer = torch.optim.SGD(layers.parameters(), 1e-3)
    for _ in range(steps):
        x = torch.randn(256, 64, requires_grad=True)
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False)
        step_of(optimizer, x.square().mean())


@standalone("reported")
def distances_of_all_pairs(steps=4):
    """pytorch/pytorch#57720: the line already is torch.cdist."""
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        a, b = model(torch.randn(2000, 8)), torch.randn(2000, 5)
        step_of(optimizer, torch.cdist(a, b, p=1).min(1).values.mean())


@standalone("reported")
def gradient_of_a_sparse_matrix(steps=4, n=2000):
    """pytorch/pytorch#41128: backward makes the gradient dense."""
    entries = torch.sparse_coo_tensor(torch.randint(0, n, (2, 8 * n)), torch.randn(8 * n), (n, n))
    adjacency = entries.coalesce().requires_grad_(True)
    features = nn.Parameter(torch.randn(n, 64))
    optimizer = torch.optim.SGD([features], 1e-3)
    for _ in range(steps):
        step_of(optimizer, torch.sparse.mm(adjacency, features).square().mean())


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 128)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(5)
        )

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        if tokens.numel() > 2048:
            raise torch.OutOfMemoryError("Tried to allocate 20.00 MiB")
        return x.square().mean()


def trained_with_retries(retry):
    model = Decoder()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def train(tokens):
        model(tokens).backward()

    for step in range(8):
        optimizer.zero_grad()
        retry(train, torch.randint(0, 256, (32 if step % 4 == 1 else 16, 128)))
        optimizer.step()


@standalone("reported")
def retry_inside_the_except_block():
    """The exception that is handled retains the frames of the attempt that failed."""

    def retry(train, tokens):
        try:
            train(tokens)
        except torch.OutOfMemoryError:
            for half in tokens.chunk(2):
                train(half)

    trained_with_retries(retry)


PLANTED = {name for name in PROGRAMS if name not in BEFORE}

CLEAN = [name for name in PROGRAMS if name not in BEFORE and name not in PLANTED]
