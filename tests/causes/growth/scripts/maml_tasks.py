"""MAML for few-shot classification: an inner loop for each task, second-order gradients."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

# The weights adapted to each task, for the analysis of how far they move.
ADAPTED = {}


class FourConv(nn.Module):
    def __init__(self, ways=5, width=64):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(1 if i == 0 else width, width, 3, padding=1) for i in range(4)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in range(4))
        self.classifier = nn.Linear(width, ways)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = functional.max_pool2d(functional.relu(norm(layer(x))), 2)
        return self.classifier(x.mean((2, 3)))


class Omniglot:
    def __init__(self, characters=50, size=28):
        self.prototypes = torch.rand(characters, 1, size, size)

    def sample(self, ways=5, shots=1, queries=3):
        chosen = torch.randperm(len(self.prototypes))[:ways]
        labels = torch.arange(ways).repeat_interleave(shots + queries)
        x = self.prototypes[chosen].repeat_interleave(shots + queries, 0)
        x = x + 0.1 * torch.randn_like(x)
        support = torch.arange(len(labels)) % (shots + queries) < shots
        return (x[support], labels[support]), (x[~support], labels[~support])


def adapt(model, support, rate=0.1, steps=2):
    x, y = support
    weights = dict(model.named_parameters())
    for _ in range(steps):
        loss = functional.cross_entropy(functional_call(model, weights, x), y)
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {name: w - rate * g for (name, w), g in zip(weights.items(), grads, strict=False)}
    return weights


def distance_moved(model):
    start = dict(model.named_parameters())
    return {
        task: sum(float((w - start[name]).norm()) for name, w in weights.items())
        for task, weights in ADAPTED.items()
    }


def main(iterations=12, tasks=4):
    torch.manual_seed(0)
    data, model = Omniglot(), FourConv()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for iteration in range(iterations):
        optimizer.zero_grad()
        outer, right = 0.0, 0.0
        for task in range(tasks):
            support, (x, y) = data.sample()
            weights = adapt(model, support)
            ADAPTED[iteration, task] = weights
            logits = functional_call(model, weights, x)
            loss = functional.cross_entropy(logits, y)
            (loss / tasks).backward()
            outer += loss.item() / tasks
            right += (logits.argmax(1) == y).float().mean().item() / tasks
        optimizer.step()
        print(f"iteration {iteration}: loss {outer:.3f}, accuracy {right:.2f}")
    moved = distance_moved(model)
    print("moved furthest:", max(moved, key=moved.get))


if __name__ == "__main__":
    main()
