"""Memory grows because hooks, backward functions and evaluations keep tensors."""

from __future__ import annotations

import typing

import torch
from tests.causes.models import low_rank_network
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional

STEPS = 12
SHARE = 0.1


@program("cnn", "unet")
def hook_appends(architecture):
    training, seen = Training(architecture, SHARE), []
    layer = next(m for m in training.model.modules() if isinstance(m, nn.Conv2d))
    handle = layer.register_forward_hook(lambda module, args, out: seen.append(out.detach()))
    training.steps(STEPS)
    handle.remove()


@standalone("held_out_lora")
def hook_keeps_base_outputs(steps=24):
    model = low_rank_network()
    kept = {}

    def remember(module, _, output):
        kept[len(kept), module] = output.detach()

    model[4].base.register_forward_hook(remember)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(steps):
        loss = functional.cross_entropy(model(torch.randn(256, 768)), torch.randint(10, (256,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def network(width=24):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.Hardswish(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * width, 64),
    ).eval()


@standalone("calibration")
def ranges_by_hooks(batches=30):
    """A hook keeps the outputs of each convolution, for their percentiles."""
    model, outputs = network(), {}

    def observe(layer, inputs, output):
        outputs.setdefault(layer, []).append(output.abs())

    for layer in model:
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(observe)
    with torch.no_grad():
        for _ in range(batches):
            model(torch.rand(4, 3, 32, 32))
    return [torch.cat([each.flatten() for each in kept]).amax() for kept in outputs.values()]


@standalone("extraction")
def maps_of_all_pictures(batches=24):
    """Nothing is allocated between the calls: the pictures exist already."""
    model, pictures, maps = network(), torch.rand(96, 3, 32, 32), []
    with torch.inference_mode():
        for part in pictures.split(96 // batches):
            maps.append(model[:5](part))
            model(part)
    return torch.cat([each.mean((2, 3)) for each in maps])


@standalone("service")
def answers_by_request(requests=40):
    """The cache has an entry for each request; no two are the same."""
    model, answers = network(), {}
    with torch.inference_mode():
        for number in range(requests):
            picture = torch.rand(4, 3, 48, 48)
            answers[number, picture.sum().item()] = model(picture), picture
    return len(answers)


class Clipped(torch.autograd.Function):
    """Keeps the clipped parts of gradients in backward, for statistics."""

    cut: typing.ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        clipped = grad.clamp(-1e-4, 1e-4)
        Clipped.cut.append(grad - clipped)
        return clipped


@standalone("backward")
def cut_gradients_of_a_function(steps=24):
    model = nn.ModuleList((nn.Linear(256, 256), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Clipped.cut.clear()
    for _ in range(steps):
        hidden = Clipped.apply(functional.relu(model[0](torch.randn(256, 256))))
        step_of(optimizer, functional.cross_entropy(model[1](hidden), torch.randint(10, (256,))))
    Clipped.cut.clear()


@standalone("backward")
def history_of_a_hook(steps=24):
    """A hook of the first layer keeps each gradient that passes."""
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []

    def keep_gradient(layer, before, after):
        history.append(after[0] * 1.0)

    model[0].register_full_backward_hook(keep_gradient)
    for _ in range(steps):
        x = torch.randn(256, 256, requires_grad=True)
        step_of(optimizer, functional.cross_entropy(model(x), torch.randint(10, (256,))))
    return len(history)


def encoder():
    layers = [nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128)) for _ in range(3)]
    return nn.Sequential(*layers)


def first_tokens(model, batches=40):
    features = []
    for _ in range(batches):
        features.append(model(torch.randn(16, 48, 128))[:, 0])
    return torch.cat(features)


@standalone("without_graph")
def first_tokens_as_views():
    with torch.no_grad():
        first_tokens(encoder())


@standalone("without_graph")
def first_tokens_in_inference_mode():
    with torch.inference_mode():
        first_tokens(encoder())


@standalone("without_graph")
def first_tokens_of_a_frozen_model():
    """No parameter needs a gradient, so nothing builds a graph, although autograd is on."""
    first_tokens(encoder().requires_grad_(False))


@standalone("without_graph")
def first_tokens_with_their_graphs():
    first_tokens(encoder())


class Recorder:
    """Hooks that compute the norms of gradients by sample. The second one removes what the first
    one appends, but does not run in an evaluation."""

    def __init__(self, linear):
        self.inputs = []
        linear.register_forward_hook(self.forward)
        linear.register_full_backward_hook(self.backward)

    def forward(self, linear, args, output):
        self.inputs.append(args[0].detach())

    def backward(self, linear, to_input, to_output):
        self.norms = to_output[0].square().sum(1) * self.inputs.pop().square().sum(1)


@standalone("without_graph")
def inputs_that_a_hook_collects(epochs=4):
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    recorder = Recorder(model[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    right = 0
    for _ in range(epochs):
        for _ in range(10):
            x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
            step_of(optimizer, functional.cross_entropy(model(x), y))
        with torch.no_grad():
            for _ in range(20):
                x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
                right += (model(x).argmax(1) == y).sum().item()
    return recorder, right
