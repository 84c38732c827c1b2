"""Programs without a mistake that look suspicious: caches and buffers that fill."""

from __future__ import annotations

import collections
import copy

import torch
from tests.causes.models import (
    ActorCritic,
    Decoder,
    Encoder,
    Field,
    Flow,
    LowRank,
    PointNet,
    SelectiveScan,
    Spiking,
    WaveNet,
    low_rank_network,
    render,
)
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional


@standalone("held_out_wavenet")
def lengths_grow(steps=30):
    model = WaveNet()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        length = 500 + 100 * step
        x = torch.randn(8, 1, length)
        step_of(optimizer, functional.cross_entropy(model(x), torch.randint(16, (8, length))))


@standalone("held_out_ssm")
def cache_of_masks_fills(steps=40):
    model = nn.Sequential(SelectiveScan(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    masks = {}
    for step in range(steps):
        length = 256 + 32 * (step * 5 % 8)
        if length not in masks:
            masks[length] = torch.ones(length, length).tril()
        x = torch.randn(4, length, 64)
        step_of(optimizer, model(masks[length] @ x / length).pow(2).mean())


@standalone("held_out_dqn")
def replay_fills_and_stays(steps=60):
    model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 6))
    optimizer = torch.optim.RMSprop(model.parameters())
    replay = collections.deque(maxlen=24)
    for step in range(steps):
        replay.append((torch.randn(32, 1024), torch.randn(32, 6)))
        state, target = replay[step * 7 % len(replay)]
        step_of(optimizer, functional.mse_loss(model(state), target))


@standalone("held_out_flow")
def second_flow_late(steps=30):
    model = Flow()
    optimizer = torch.optim.Adam(model.parameters())
    second = second_optimizer = None
    for step in range(steps):
        if step == 18:
            second = Flow(width=512)
            second_optimizer = torch.optim.Adam(second.parameters())
        z, determinant = model(torch.randn(512, 64))
        step_of(optimizer, z.pow(2).mean() - determinant.mean())
        if second is not None:
            z, determinant = second(z.detach())
            step_of(second_optimizer, z.pow(2).mean() - determinant.mean())


@standalone("held_out_nerf")
def average_by_design(steps=20):
    field = Field(width=256)
    average = torch.optim.swa_utils.AveragedModel(field)
    optimizer = torch.optim.Adam(field.parameters())
    for _ in range(steps):
        rays = torch.randn(2, 64, 3)
        step_of(optimizer, render(field, rays[0], rays[1]).pow(2).mean())
        average.update_parameters(field)


@standalone("held_out_lora")
def unfrozen_layer_by_layer(steps=36):
    model = low_rank_network(512)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    frozen = [layer.base for layer in model if isinstance(layer, LowRank)]
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 6)
    for step in range(steps):
        if step % 8 == 7 and frozen:
            layer = frozen.pop().requires_grad_(True)
            optimizer.add_param_group({"params": list(layer.parameters())})
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 6)
        x, labels = torch.randn(64, 512), torch.randint(10, (64,))
        step_of(optimizer, functional.cross_entropy(model(x), labels))
        scheduler.step()


@standalone("held_out_pointnet")
def early_validation(steps=24):
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        if step == 1:
            model.eval()
            with torch.no_grad():
                model(torch.rand(3, 512, 3))
            model.train()
        x, labels = torch.rand(4, 512, 3), torch.randint(10, (4,))
        step_of(optimizer, functional.cross_entropy(model(x), labels))


@standalone("held_out_two_towers")
def embedding_is_the_model(steps=16):
    users, items = nn.Embedding(60_000, 64, sparse=True), nn.Embedding(120_000, 64, sparse=True)
    optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
    for _ in range(steps):
        u, i = users(torch.randint(60_000, (512,))), items(torch.randint(120_000, (512,)))
        step_of(optimizer, functional.cross_entropy(u @ i.T, torch.arange(512)))


@standalone("held_out_spiking")
def membrane_detached(steps=24):
    model = Spiking()
    optimizer = torch.optim.Adam(model.parameters())
    membrane = torch.zeros(64, 512)
    for _ in range(steps):
        out, membrane = model(torch.rand(10, 64, 256), membrane)
        step_of(optimizer, functional.cross_entropy(out, torch.randint(10, (64,))))
        membrane = membrane.detach()


@standalone("held_out_ppo")
def rollout_cleared_each_update(updates=10):
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    rollout = []
    for _ in range(updates):
        for _ in range(8):
            seen = torch.randn(64, 512)
            with torch.no_grad():
                policy, value = model(seen)
                action = policy.sample()
            rollout.append((seen, action, policy.log_prob(action), torch.randn(64) - value))
        for _ in range(2):
            for seen, action, before, advantage in rollout:
                policy, value = model(seen)
                ratio = torch.exp(policy.log_prob(action) - before)
                loss = -(ratio * advantage).mean() + (value - advantage).pow(2).mean()
                step_of(optimizer, loss)
        rollout.clear()


@standalone("held_out_decoder")
def cache_of_keys_grows_and_goes(prompts=4):
    model = Decoder().eval()

    @torch.inference_mode()
    def generate(words):
        cache, word = {}, torch.randint(500, (8, 1))
        for _ in range(words):
            word = model(word, cache)[:, -1:].argmax(-1)
        return word

    for prompt in range(prompts):
        generate(40 + 40 * prompt)


@standalone("held_out_moco")
def bank_written_in_place(steps=30):
    query, key = Encoder(), Encoder()
    optimizer = torch.optim.SGD(query.parameters(), lr=0.03)
    bank = functional.normalize(torch.randn(8192, 256), dim=-1)
    best = copy.deepcopy(query.state_dict())
    hits = torch.zeros(64)
    for step in range(steps):
        images = torch.randn(64, 3, 32, 32)
        with torch.no_grad():
            keys = key(images.flip(-1))
        logits = query(images) @ torch.cat([keys, bank]).T
        step_of(optimizer, functional.cross_entropy(logits / 0.07, torch.arange(64)))
        bank[step * 64 : (step + 1) * 64] = keys
        hits += (logits.argmax(-1) == torch.arange(64)).float()
        if step % 4 == 3:
            best = copy.deepcopy(query.state_dict())
    return best
