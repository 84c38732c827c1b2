"""Programs that leak. expected.tsv lists what retains the memory."""

from __future__ import annotations

import functools
import sys

import torch
from tests.causes.training import Training, program
from torch import nn

STEPS = 12
SHARE = 0.1


def each_step(training, keep):
    for step in range(STEPS):
        keep(step, training.step())


@program("vit", "cnn", "gan")
def losses_with_graph(architecture):
    """A term of the loss that backward does not reach keeps its graph."""
    training, losses = Training(architecture, SHARE), []
    for _ in range(STEPS):
        training.step()
        losses.append(training.loss())


@program("mlp", "transformer", "moe")
def outputs_cached(architecture):
    training, cached = Training(architecture, SHARE), []
    for _ in range(STEPS):
        training.step()
        with torch.no_grad():
            cached.append(training.output())


@program("cnn", "unet")
def hook_appends(architecture):
    training, seen = Training(architecture, SHARE), []
    layer = next(m for m in training.model.modules() if isinstance(m, nn.Conv2d))
    handle = layer.register_forward_hook(lambda module, args, out: seen.append(out.detach()))
    training.steps(STEPS)
    handle.remove()


@program("gnn", "recommender", "diffusion")
def growing_dict(architecture):
    training, features = Training(architecture, SHARE), {}
    for step in range(STEPS):
        training.step()
        features[step] = torch.rand(64 << 10)


@program("vae", "mlp")
def retained_graphs(architecture):
    training, total = Training(architecture, SHARE), 0
    for _ in range(STEPS):
        training.optimizer.zero_grad()
        loss = training.loss()
        loss.backward(retain_graph=True)
        training.optimizer.step()
        total = total + loss


@program("lstm", "gru")
def hidden_state_not_detached(architecture):
    training, state = Training(architecture, 0.05), None
    for _ in range(STEPS):
        (x,) = training.batch()
        training.optimizer.zero_grad()
        out, state = training.model(x, state)
        out.square().mean().backward(
            retain_graph=True, inputs=list(training.model.head.parameters())
        )
        training.optimizer.step()


@program("gan", "vit")
def gradients_in_a_list(architecture):
    training, gradients = Training(architecture, SHARE), []
    for _ in range(STEPS):
        training.step()
        gradients.append([p.grad.clone() for p in training.model.parameters()])


@program("unet", "splats")
def logged_tensors(architecture):
    training, logs = Training(architecture, 8 * SHARE), {"prediction": []}
    for _ in range(STEPS):
        training.step()
        logs["prediction"].append(training.output().detach())


@program("transformer", "gnn")
def lru_cache(architecture):
    training = Training(architecture, SHARE)

    @functools.cache
    def table(length):
        return torch.rand(length, 128)

    for step in range(STEPS):
        training.step()
        table(512 + step)


@program("recommender", "mlp")
def closures(architecture):
    training, callbacks = Training(architecture, SHARE), []
    for _ in range(STEPS):
        training.step()
        sample = torch.rand(128 << 10)
        callbacks.append(lambda sample=sample: sample.mean())


@program("diffusion", "vae")
def exceptions_keep_frames(architecture):
    training, errors = Training(architecture, SHARE), []

    def check():
        sample = torch.rand(128 << 10)
        raise ValueError(len(sample))

    for _ in range(STEPS):
        training.step()
        try:
            check()
        except ValueError:
            errors.append(sys.exc_info())
