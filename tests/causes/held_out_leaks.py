"""Held-out programs that retain something at every step; docs/findings.md has their dates."""

from __future__ import annotations

import functools

import torch
from tests.causes.held_out_models import (
    ActorCritic,
    Dynamics,
    Encoder,
    Mixer,
    Translator,
    WaveNet,
    integrate,
    low_rank_network,
)
from tests.causes.training import held_out
from torch import nn
from torch.nn import functional

STEPS = 24


@held_out("ppo")
def log_probabilities_kept(steps=STEPS):
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


@held_out("dqn")
def replay_without_limit(steps=60):
    model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 6))
    optimizer = torch.optim.RMSprop(model.parameters())
    replay = []
    state = torch.randn(32, 1024)
    for step in range(steps):
        with torch.no_grad():
            action = model(state).argmax(-1)
        following = state + 0.1 * torch.randn(32, 1024)
        replay.append((state, action, torch.randn(32), following))
        state = following
        before, taken, reward, after = replay[(step * 7) % len(replay)]
        with torch.no_grad():
            target = reward + 0.9 * model(after).amax(-1)
        loss = functional.mse_loss(model(before).gather(1, taken[:, None])[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("moco")
def bank_concatenated(steps=40):
    query, key = Encoder(), Encoder()
    key.load_state_dict(query.state_dict())
    optimizer = torch.optim.SGD(query.parameters(), lr=0.03)
    bank = functional.normalize(torch.randn(2048, 256), dim=-1)
    for _ in range(steps):
        images = torch.randn(64, 3, 32, 32)
        with torch.no_grad():
            for p, q in zip(key.parameters(), query.parameters(), strict=True):
                p.mul_(0.99).add_(q, alpha=0.01)
            keys = key(images.flip(-1))
        logits = query(images) @ torch.cat([keys, bank]).T
        loss = functional.cross_entropy(logits / 0.07, torch.arange(64))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank = torch.cat([bank, keys.repeat(8, 1)])


@held_out("style_transfer")
def features_logged_by_closure(steps=STEPS):
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


@held_out("lora")
def hook_keeps_base_outputs(steps=STEPS):
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


@held_out("seq2seq")
def total_loss_with_graph(steps=STEPS):
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


@held_out("neural_ode")
def trajectories_for_a_plot(steps=STEPS):
    dynamics = Dynamics()
    optimizer = torch.optim.Adam(dynamics.parameters())
    plots = []
    for _ in range(steps):
        path = integrate(dynamics, torch.randn(256, 64))
        loss = path[-1].pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plots.append(path.data)


@held_out("maml")
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


@held_out("mlp_mixer")
def weights_of_each_epoch(epochs=10):
    model = Mixer(width=384)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    averaged = []
    for _ in range(epochs):
        for _ in range(3):
            loss = functional.cross_entropy(model(torch.randn(8, 64, 48)), torch.randint(10, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        averaged.append({name: value.clone() for name, value in model.state_dict().items()})


@held_out("wavenet")
def window_cached_per_length(steps=40):
    @functools.cache
    def window(length):
        return torch.hann_window(length).repeat(16, 1)

    model = WaveNet(channels=16)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        length = 4000 + (step * 37) % 97
        audio = torch.randn(16, length) * window(length)
        loss = functional.cross_entropy(model(audio[:, None]), torch.randint(16, (16, length)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        if index not in self.cache:
            raw = torch.randint(256, (3, 64, 64), dtype=torch.uint8)
            self.cache[index] = raw.float() / 255
        return self.cache[index]


@held_out("triplet")
def dataset_caches_all(steps=40):
    model = Encoder(width=8, out=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Pictures(), batch_size=24, shuffle=True)
    for _, images in zip(range(steps), loader, strict=False):
        a, b, c = model(images).chunk(3)
        loss = functional.triplet_margin_loss(a, b, c)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
