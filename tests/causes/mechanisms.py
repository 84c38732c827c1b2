"""Programs with one planted cause each, written after the second held-out list with other idioms
and architectures. expected_mechanisms.tsv has the expected findings."""

from __future__ import annotations

import collections

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.nn import functional

BEFORE = frozenset(PROGRAMS)


class Eye(nn.Module):
    """A small encoder: four allocations in each forward."""

    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv1d(4, width, 9, stride=4, padding=4)
        self.second = nn.Conv1d(width, width, 9, stride=4, padding=4)

    def forward(self, x):
        x = functional.silu(self.first(x))
        return functional.silu(self.second(x)).mean(-1)


@standalone("curiosity")
def rollout_with_graphs(updates=6):
    """The features of a rollout keep their graphs; the update runs the encoder again."""
    eye, head = Eye(), nn.Linear(32, 6)
    optimizer = torch.optim.Adam([*eye.parameters(), *head.parameters()])
    for _ in range(updates):
        rollout = []
        for _ in range(16):
            seen = torch.rand(16, 4, 2048)
            rollout.append((seen, eye(seen)))
        for seen, features in rollout:
            step_of(optimizer, functional.mse_loss(head(eye(seen)), features.detach()[:, :6]))


@standalone("curiosity")
def latents_after_the_forward(steps=30):
    """The retained latent is allocated between a forward and its backward."""
    eye, head = Eye(), nn.Linear(32, 6)
    optimizer = torch.optim.SGD([*eye.parameters(), *head.parameters()], lr=0.01)
    kept = collections.deque(maxlen=10)
    for _ in range(steps):
        loss = head(eye(torch.rand(16, 4, 2048))).square().mean()
        kept.append(eye(torch.rand(16, 4, 2048)))
        step_of(optimizer, loss + torch.stack([each.detach().mean() for each in kept]).mean())


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.middle = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, time):
        x = functional.gelu(self.enter(x) + time)
        for layer in self.middle:
            x = x + functional.gelu(layer(x))
        return self.leave(x)


@standalone("denoiser")
def sampling_with_graph(steps=12):
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters())

    def draw(rounds=30):
        x = torch.randn(4, 3, 32, 32)
        for time in range(rounds, 0, -1):
            x = x - model(x, time / rounds) / rounds
        return x

    for step in range(steps):
        clean = torch.rand(8, 3, 32, 32)
        noise = torch.randn_like(clean)
        step_of(optimizer, functional.mse_loss(model(clean + noise, 1.0), noise))
        if step % 6 == 5:
            draw().std().item()


@standalone("dynamics")
def evaluation_rolled_out_with_graph(steps=12):
    model = nn.Sequential(
        nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 256)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        state = torch.randn(64, 256)
        step_of(optimizer, functional.mse_loss(model(state), state.roll(1, -1)))
    state = first = torch.randn(64, 256)
    for _ in range(120):
        state = model(state)
    (state - first).abs().mean().item()
    del state
    step_of(optimizer, functional.mse_loss(model(first), first))


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


@standalone("adapter")
def base_with_gradients(steps=16):
    """The optimizer has only the adapters, but the base is not frozen and gets gradients."""

    class Adapted(nn.Module):
        def __init__(self, width=768):
            super().__init__()
            self.base = nn.ModuleList(nn.Linear(width, width) for _ in range(8))
            self.down = nn.ModuleList(nn.Linear(width, 8) for _ in range(8))
            self.up = nn.ModuleList(nn.Linear(8, width) for _ in range(8))

        def forward(self, x):
            for base, down, up in zip(self.base, self.down, self.up, strict=True):
                x = torch.tanh(base(x) + up(torch.relu(down(x))))
            return x

    model = Adapted()
    optimizer = torch.optim.SGD([*model.down.parameters(), *model.up.parameters()], lr=0.01)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(16, 768)).square().mean())


@standalone("detector")
def backbone_with_gradients(steps=12):
    """A convolutional backbone in eval mode, whose parameters are not frozen."""
    backbone = nn.Sequential(nn.Conv2d(3, 384, 3, 2), nn.ReLU())
    for _ in range(5):
        backbone += nn.Sequential(nn.Conv2d(384, 384, 3, padding=1), nn.ReLU())
    head = nn.Linear(384, 20)
    optimizer = torch.optim.Adam(head.parameters())
    for _ in range(steps):
        features = backbone(torch.rand(2, 3, 16, 16)).amax((2, 3))
        step_of(optimizer, functional.cross_entropy(head(features), torch.randint(20, (2,))))


@standalone("perturbed")
def masks_of_each_member(rounds=4, members=48):
    """A random mask for each parameter and member, all kept until the round ends."""
    model = nn.Sequential(nn.Linear(300, 400), nn.Tanh(), nn.Linear(400, 50))
    with torch.no_grad():
        for _ in range(rounds):
            masks, scores = [], []
            for _ in range(members):
                mask = [torch.rand(p.shape).sub_(0.5) for p in model.parameters()]
                for p, m in zip(model.parameters(), mask, strict=True):
                    p.add_(m, alpha=0.01)
                scores.append(model(torch.randn(32, 300)).square().mean())
                for p, m in zip(model.parameters(), mask, strict=True):
                    p.sub_(m, alpha=0.01)
                masks.append(mask)
            best = int(torch.stack(scores).argmin())
            for p, m in zip(model.parameters(), masks[best], strict=True):
                p.add_(m, alpha=0.01)


@standalone("small_model")
def states_of_all_trials(trials=40):
    """Random search: the state of each trial is kept. The model has 0.6 MB."""
    model = nn.Sequential(nn.Linear(300, 400), nn.Tanh(), nn.Linear(400, 50))
    tried = []
    for _ in range(trials):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p), alpha=0.01)
            score = model(torch.randn(32, 300)).square().mean().item()
        tried.append((score, {n: p.detach().clone() for n, p in model.named_parameters()}))
    return min(score for score, _ in tried)


@standalone("ranker")
def adam_state_of_bags(steps=12):
    """Two bags of many rows, of which each batch uses a few."""

    class Ranker(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.EmbeddingBag(120_000, 48)
            self.people = nn.EmbeddingBag(90_000, 48)
            self.score = nn.Linear(96, 1)

        def forward(self, words, people):
            return self.score(torch.cat([self.words(words), self.people(people)], 1))

    model = Ranker()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(steps):
        words, people = torch.randint(120_000, (64, 20)), torch.randint(90_000, (64, 5))
        step_of(optimizer, model(words, people).square().mean())


@standalone("phases")
def optimizer_of_each_phase(phases=6, steps=4):
    """Each phase creates an optimizer; all are kept for the history of learning rates."""
    model = nn.Sequential(nn.Linear(600, 800), nn.ReLU(), nn.Linear(800, 600))
    history = {}
    for phase in range(phases):
        history[phase] = torch.optim.RMSprop(model.parameters(), lr=0.1**phase, momentum=0.9)
        for _ in range(steps):
            x = torch.randn(32, 600)
            step_of(history[phase], functional.mse_loss(model(x), x))


@standalone("graph")
def pairwise_in_a_helper(steps=6):
    """One helper, called by the forward of one of several layers, allocates most of the peak."""

    def affinity(x):
        gap = (x[:, None] - x[None]).square()
        return torch.softmax(-gap.sum(-1), -1)

    class Affinity(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(24, 24)

        def forward(self, x):
            return self.mix(affinity(x) @ x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.near = nn.Linear(8, 24), Affinity()
            self.middle, self.leave = nn.Linear(24, 24), nn.Linear(24, 8)

        def forward(self, x):
            return self.leave(torch.relu(self.middle(self.near(torch.relu(self.enter(x))))))

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(500, 8)).square().mean())


@standalone("meta")
def inner_rounds_with_graph(steps=6):
    """Ten rounds refine the inputs by their gradient, and backward runs through all of them."""
    model = nn.Sequential(nn.Linear(128, 256), nn.Softplus(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def refine(x, rounds=10):
        for _ in range(rounds):
            energy = model(x).sum()
            x = x - 0.1 * torch.autograd.grad(energy, x, create_graph=True)[0]
        return x

    for _ in range(steps):
        found = refine(torch.randn(512, 128, requires_grad=True))
        step_of(optimizer, (model(found.detach()) - model(torch.randn(512, 128))).mean())


@standalone("regression")
def loss_broadcast(steps=8):
    """Targets lack the last dimension, so the difference is a matrix of all pairs."""
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x, y = torch.randn(1500, 16), torch.randn(1500)
        step_of(optimizer, ((model(x) - y) ** 2).mean())


class Causal(nn.Module):
    def __init__(self, width=32, longest=1024):
        super().__init__()
        self.both = nn.Linear(width, 2 * width)
        self.register_buffer("mask", torch.ones(longest, longest).tril())

    def forward(self, x):
        query, value = self.both(x).chunk(2, -1)
        mask = self.mask[: x.shape[1], : x.shape[1]]
        weights = (query @ x.transpose(1, 2)).masked_fill(mask == 0, -1e9).softmax(-1)
        return x + weights @ value


@standalone("causal")
def mask_in_each_layer(steps=8):
    model = nn.Sequential(*[Causal() for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(2, 64, 32)).square().mean())


@standalone("tasks")
def losses_summed_before_backward(steps=6, tasks=16):
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        losses = []
        for _ in range(tasks):
            logits = model(torch.randn(512, 64))
            losses.append(functional.cross_entropy(logits, torch.randint(10, (512,))))
        step_of(optimizer, torch.stack(losses).mean())


@standalone("filter")
def results_of_evaluation_kept(epochs=3):
    """The results of an evaluation stay in a variable until the next one."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        for _ in range(6):
            step_of(optimizer, model(torch.rand(2, 3, 64, 64)).square().mean())
        with torch.no_grad():
            results = []
            for _ in range(40):
                results.append(model(torch.rand(4, 3, 64, 64)))
            torch.cat(results).mean().item()


NAMES = [name for name in PROGRAMS if name not in BEFORE]
