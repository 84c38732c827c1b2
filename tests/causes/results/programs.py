"""Batches, or results of earlier steps, fill the peak and do not grow any more."""

from __future__ import annotations

from collections import deque

import torch
from tests.causes.growth.rare import network
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional


def load(n):
    return torch.rand(n, 3, 256, 256)


@program("cnn", "vit", "unet")
def prefetched_batches(architecture):
    queue = deque(load(4) for _ in range(24))
    training = Training(architecture, 0.2)
    for _ in range(6):
        queue.append(load(4))
        training.loss(functional.avg_pool2d(queue.popleft(), 4)).backward()
        training.optimizer.step()
        training.optimizer.zero_grad()


@program("lstm", "mlp")
def batches_in_a_list(architecture):
    training = Training(architecture, 0.1)
    batches = [architecture.batch(60 * training.samples) for _ in range(8)]
    for batch in batches[:3]:
        training.step(*(part[: training.samples] for part in batch))


@standalone("segmentation")
def masks_of_an_epoch(epochs=3, batches=60):
    """Probabilities and labels of each batch are kept for the score of the epoch."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        probabilities, labels = [], []
        for _ in range(batches):
            picture, label = torch.rand(4, 3, 64, 64), torch.randint(4, (4, 64, 64))
            logits = model(picture)
            step_of(optimizer, functional.cross_entropy(logits, label))
            probabilities.append(logits.detach().softmax(1))
            labels.append(label)
        pairs = zip(probabilities, labels, strict=True)
        sum(made.argmax(1).eq(label).float().mean().item() for made, label in pairs)


@standalone("forecast")
def residuals_of_an_epoch(epochs=3, batches=40):
    """A recurrent model whose callback keeps each batch's inputs and residuals."""

    class Forecast(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.GRU(16, 32, batch_first=True), nn.Linear(32, 16)

        def forward(self, x):
            return self.out(self.cell(x)[0])

    class Residuals:
        def __init__(self):
            self.kept = {}

        def after_batch(self, number, made, wanted):
            self.kept[number] = (wanted - made).detach()

        def after_epoch(self):
            spread = torch.stack([each.std() for each in self.kept.values()]).mean()
            self.kept = {}
            return spread.item()

    model, callback = Forecast(), Residuals()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        for batch in range(batches):
            x = torch.randn(64, 128, 16)
            made = model(x)
            step_of(optimizer, functional.mse_loss(made[:, :-1], x[:, 1:]))
            callback.after_batch(batch, made, x)
        callback.after_epoch()


def cleared(times, each=20):
    """Grows for `each` steps, then frees everything."""
    model, optimizer = network()
    kept = []
    for step in range(times * each):
        out = model(torch.randn(64, 256))
        step_of(optimizer, out.square().mean())
        kept.append(torch.rand(512, 512))
        if step % each == each - 1:
            kept.clear()


@standalone("saw_tooth")
def cleared_twice():
    cleared(2)


@standalone("saw_tooth")
def cleared_ten_times():
    cleared(10)


@standalone("saw_tooth")
def cleared_and_grows_again():
    """The recording ends in the middle of the third rise."""
    model, optimizer = network()
    kept = []
    for step in range(54):
        step_of(optimizer, model(torch.randn(64, 256)).square().mean())
        kept.append(torch.rand(512, 512))
        if step % 20 == 19:
            kept.clear()


WIDTH = 256


@standalone("cycles")
def outputs_of_an_epoch(epochs=3, batches=40):
    """The program collects outputs and frees them itself, while the collector runs often."""
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        outputs = []
        for _ in range(batches):
            make_cycles()
            out = model(torch.randn(WIDTH, WIDTH))
            step_of(optimizer, out.square().mean())
            outputs.append(out.detach())
        torch.stack([each.std() for each in outputs]).mean().item()


def make_cycles(count=1000):
    for _ in range(count):
        cycle = []
        cycle.append(cycle)


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
