"""Memory grows at every step because the program keeps graphs."""

from __future__ import annotations

import copy
import weakref

import torch
from tests.causes.models import ActorCritic, Translator
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

STEPS = 12
SHARE = 0.1


@program("vit", "cnn", "gan")
def losses_with_graph(architecture):
    """A term of the loss that backward does not reach keeps its graph."""
    training, losses = Training(architecture, SHARE), []
    for _ in range(STEPS):
        training.step()
        losses.append(training.loss())


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


@standalone("held_out_ppo")
def log_probabilities_kept(steps=24):
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    history = []
    for _ in range(steps):
        rollout, values = [], []
        for _ in range(4):
            policy, value = model(torch.randn(64, 512))
            action = policy.sample()
            rollout.append(policy.log_prob(action))
            values.append(value)
        history.append(rollout)
        loss = -torch.stack(rollout).mean() + torch.stack(values).pow(2).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


@standalone("held_out_style_transfer")
def features_logged_by_closure(steps=24):
    features = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
    ).requires_grad_(False)
    image = nn.Parameter(torch.rand(1, 3, 96, 96))
    style = features(torch.rand(1, 3, 96, 96))
    optimizer = torch.optim.LBFGS([image], lr=0.5, max_iter=2, history_size=4)
    logged = []
    for _ in range(steps):

        def closure():
            optimizer.zero_grad()
            got = features(image)
            loss = functional.mse_loss(got, style)
            loss.backward()
            logged.append({"features": got, "loss": loss})
            return loss

        optimizer.step(closure)


@standalone("kept")
def means_with_their_graphs(steps=24):
    """Only the constants of the graph are tensors: many, of 8 bytes each."""
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(24)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    means = [torch.zeros(()) for _ in model.parameters()]
    for _ in range(steps):
        step_of(optimizer, model(torch.rand(8, 32)).square().mean())
        norms = [parameter.norm() for parameter in model.parameters()]
        means = [0.9 * mean + 0.1 * norm for mean, norm in zip(means, norms, strict=True)]


@standalone("held_out_seq2seq")
def total_loss_with_graph(steps=24):
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters())
    total = 0
    for _ in range(steps):
        source, target = torch.randint(800, (16, 20)), torch.randint(800, (16, 12))
        logits = model(source, target)
        loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total += loss
    return total


@standalone("held_out_maml")
def fast_weights_never_cut(steps=20):
    weights = [torch.randn(256, 256) / 16, torch.randn(256, 256) / 16]
    slow = [w.requires_grad_() for w in weights]
    optimizer = torch.optim.SGD(slow, lr=1e-3)
    fast = slow
    for _ in range(steps):
        x = torch.randn(128, 256)
        inner = (torch.tanh(x @ fast[0]) @ fast[1]).pow(2).mean()
        steps_down = torch.autograd.grad(inner, fast, create_graph=True)
        fast = [w - 0.01 * g for w, g in zip(fast, steps_down, strict=True)]
        outer = (torch.tanh(x @ fast[0].detach()) @ slow[1]).pow(2).mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        for w, g in zip(slow, steps_down, strict=True):
            w.data.sub_(g.detach(), alpha=1e-4)
    return fast


@standalone("evidence")
def gradients_with_graph(steps=24):
    """The .grad of each copy refers to its graph, and its graph to the copy."""
    model = nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    leaked = []  # weak references, to free the memory for the next program
    for _ in range(steps):
        task, x = copy.deepcopy(model), torch.randn(256, 128)
        leaked += map(weakref.ref, task.parameters())
        functional.mse_loss(task(x), x).backward(create_graph=True)
        optimizer.zero_grad()
        for parameter, of_task in zip(model.parameters(), task.parameters(), strict=True):
            parameter.grad = of_task.grad.detach().clone()
        optimizer.step()
    for parameter in (each() for each in leaked):
        if parameter is not None:
            parameter.grad = None


class Attention(nn.Module):
    def __init__(self, width=64, heads=8):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        q, k, v = self.inputs(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        weights = (q @ k.transpose(-1, -2)).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x, weights, (k, v)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention(width=128) for _ in range(4))

    def forward(self, x, caches):
        new = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, _, longer = layer(x, cache)
            new.append(longer)
        return x[:, -1:], new


@standalone("everyday")
def generation_with_graph(tokens=80):
    """The cache of keys and values retains the graph of all tokens before."""
    model = Decoder().eval()
    x, caches = torch.randn(8, 8, 128), [None] * 4
    for _ in range(tokens):
        x, caches = model(x, caches)


@standalone("penalty")  # what it leaks is never freed, so it is recorded in a process of its own
def penalty_by_backward(steps=40):
    """x.grad has a graph that refers to x: neither is ever freed."""
    model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(256, 128, requires_grad=True)
        model(x).mean().backward(create_graph=True)
        step_of(optimizer, (x.grad.norm(dim=1) - 1).square().mean())


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


def learner_of(model):
    learner = copy.deepcopy(model)
    return learner, functional.cross_entropy(learner(torch.randn(32, 256)), torch.zeros(32).long())


@standalone("copied")
def copies_with_create_graph(tasks=16):
    """The .grad of each copy refers to the copy. Python's collector does not free these cycles."""
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(tasks):
        learner, loss = learner_of(model)
        loss.backward(create_graph=True)
        sum(p.grad.square().sum() for p in learner.parameters()).backward()
        step_of(optimizer, model(torch.randn(32, 256)).square().mean())
