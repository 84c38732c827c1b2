"""Memory grows because a list, a cache or a tensor keeps results of every step."""

from __future__ import annotations

import functools
import sys

import torch
from tests.causes.models import Dynamics, Encoder, Mixer, WaveNet, integrate
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional

STEPS = 12
SHARE = 0.1


@program("mlp", "transformer", "moe")
def outputs_cached(architecture):
    training, cached = Training(architecture, SHARE), []
    for _ in range(STEPS):
        training.step()
        with torch.no_grad():
            cached.append(training.output())


@program("gnn", "recommender", "diffusion")
def growing_dict(architecture):
    training, features = Training(architecture, SHARE), {}
    for step in range(STEPS):
        training.step()
        features[step] = torch.rand(64 << 10)


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


@standalone("held_out_dqn")
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


@standalone("held_out_moco")
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


@standalone("held_out_neural_ode")
def trajectories_for_a_plot(steps=24):
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


@standalone("held_out_mlp_mixer")
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


@standalone("held_out_wavenet")
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


@standalone("held_out_triplet")
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


@standalone("two_banks")
def both_banks_concatenated(steps=30):
    """Two modalities; one comprehension appends to the bank of each."""
    encoders = nn.ModuleDict({"image": nn.Linear(512, 128), "text": nn.Linear(256, 96)})
    optimizer = torch.optim.SGD(encoders.parameters(), lr=0.01)
    banks = {name: torch.empty(0, layer.out_features) for name, layer in encoders.items()}
    for _ in range(steps):
        made = {
            name: layer(torch.randn(512, layer.in_features)) for name, layer in encoders.items()
        }
        banks = {name: torch.cat([banks[name], made[name].detach()]) for name in banks}
        step_of(optimizer, sum(each.square().mean() for each in made.values()))


@standalone("hidden_histories")
def histories_stacked(steps=30):
    """The states of four recurrent layers, each stacked with all states before it."""
    cells = nn.ModuleList(nn.GRUCell(128, 128) for _ in range(4))
    optimizer = torch.optim.SGD(cells.parameters(), lr=0.01)
    histories = [torch.zeros(1, 256, 128) for _ in cells]
    for _ in range(steps):
        x = torch.randn(256, 128)
        for i, cell in enumerate(cells):
            x = cell(x, histories[i][-1])
            histories[i] = torch.cat([histories[i], x.detach()[None]])
        step_of(optimizer, x.square().mean())


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(16, 16, 1)

    def forward(self, x):
        return self.head(self.body(x)).softmax(1)


@standalone("kept")
def predictions_of_a_metric(steps=24):
    """A metric that nobody resets keeps predictions and targets. Backward has freed the graphs."""
    model = Segmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    predictions, targets = [], []
    for _ in range(steps):
        x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 16, (2, 64, 64))
        prediction = model(x)
        predictions.append(prediction)
        targets.append(y)
        step_of(optimizer, functional.nll_loss(torch.log(prediction + 1e-6), y))


@standalone("kept")
def exceptions_of_bad_batches(steps=48):
    """Each stored exception retains the frame of its batch, with the graph."""
    model = nn.Sequential(
        nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    failures = []

    def train(x):
        loss = model(x).square().mean()
        if not torch.isfinite(loss):
            raise FloatingPointError(loss.item())
        step_of(optimizer, loss)

    for step in range(steps):
        x = torch.randn(256, 128)
        if step % 3 == 1:
            x[0, 0] = float("nan")
        try:
            train(x)
        except FloatingPointError as error:
            failures.append(error)
