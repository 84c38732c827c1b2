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


@standalone("reported")
def outputs_of_the_last_evaluation(epochs=3):
    """pytorch-lightning#5735: they stay through the training after it."""
    model, head = nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 2048)), nn.Linear(2048, 10)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 1e-3)
    outputs = []
    for _ in range(epochs):
        for _ in range(8):
            step_of(optimizer, head(model(torch.randn(512, 256)).relu()).square().mean())
        outputs.clear()
        with torch.no_grad():
            for _ in range(20):
                outputs.append(model(torch.randn(64, 256)))


@standalone("reported")
def attributes_of_earlier_calls(models=8):
    """tangermeme#84: hooks store inputs and outputs in the modules."""

    def save(module, inputs, output):
        module.input, module.output = inputs[0].clone().detach(), output.clone().detach()

    def attribute(model, x):
        hooks = [m.register_forward_hook(save) for m in model if isinstance(m, nn.ReLU)]
        x.requires_grad_()
        torch.autograd.grad(model(x).sum(), x)
        for hook in hooks:
            hook.remove()

    def make():
        pool = nn.AdaptiveAvgPool1d(1)
        return nn.Sequential(nn.Conv1d(4, 64, 9), nn.ReLU(), nn.Conv1d(64, 64, 9), nn.ReLU(), pool)

    for model in [make().requires_grad_(False) for _ in range(models)]:
        attribute(model, torch.randn(32, 4, 256))


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

# By program: the finding, and what its advice changes in the program.
EDITS = {
    "reported/outputs_of_the_last_evaluation": (
        "batches_kept",
        "outputs.append(model(torch.randn(64, 256)))",
        "outputs.append(model(torch.randn(64, 256)))\n        outputs.clear()",
    ),
    "reported/attributes_of_earlier_calls": (
        "batches_kept",
        "            hook.remove()",
        "            hook.remove()\n"
        "        for module in model:\n"
        "            module.__dict__.pop('input', 0)\n"
        "            module.__dict__.pop('output', 0)",
    ),
}


@standalone("reported")
def features_made_before(steps=30):
    """Features of a frozen model, made before the training that uses them."""
    model, head = nn.Linear(64, 1024), nn.Linear(1024, 1)
    with torch.no_grad():
        features = [model(torch.randn(256, 64)) for _ in range(10)]
    optimizer = torch.optim.SGD(head.parameters(), 1e-3)
    for step in range(steps):
        step_of(optimizer, head(features[step % 10]).square().mean())


@standalone("reported")
def tables_by_length(steps=60):
    """A bounded cache that evicts what is used least."""
    cache = {}
    model = nn.GRU(64, 64, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(steps):
        length = 256 + 64 * (step * 7 % 12)
        if length not in cache:
            if len(cache) == 8:
                cache.pop(next(iter(cache)))
            cache[length] = torch.sin(torch.arange(4 * length)[:, None] / 10 + torch.arange(64))
        x = torch.randn(1, 64, 64) + cache[length][:64]
        step_of(optimizer, model(x)[0].square().mean())


CLEAN = [name for name in PROGRAMS if name not in BEFORE and name not in PLANTED]
