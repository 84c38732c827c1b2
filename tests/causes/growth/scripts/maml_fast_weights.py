"""MAML for sinusoids; the adapted weights of every task stay in a dictionary by task number."""

import math

import torch
from torch.nn import functional


def init_weights(width=256):
    shapes = [(width, 1), (width,), (width, width), (width,), (1, width), (1,)]
    weights = [torch.randn(shape) * 0.1 for shape in shapes]
    return [w.requires_grad_() for w in weights]


def predict(weights, x):
    w1, b1, w2, b2, w3, b3 = weights
    h = functional.relu(functional.linear(x, w1, b1))
    h = functional.relu(functional.linear(h, w2, b2))
    return functional.linear(h, w3, b3)


def sample_task():
    amplitude, phase = 0.1 + 4.9 * torch.rand(1), math.pi * torch.rand(1)

    def draw(count):
        x = torch.rand(count, 1) * 10 - 5
        return x, amplitude * torch.sin(x + phase)

    return draw


class MetaLearner:
    def __init__(self, inner_rate=0.01):
        self.weights, self.inner_rate = init_weights(), inner_rate
        self.optimizer = torch.optim.Adam(self.weights, lr=1e-3)
        self.adapted, self.tasks_seen = {}, 0

    def adapt(self, x, y, steps=2):
        fast = self.weights
        for _ in range(steps):
            loss = functional.mse_loss(predict(fast, x), y)
            gradients = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [w - self.inner_rate * g for w, g in zip(fast, gradients, strict=True)]
        return fast

    def meta_step(self, tasks):
        total = 0.0
        for task in tasks:
            fast = self.adapt(*task(10))
            self.adapted[self.tasks_seen] = fast
            self.tasks_seen += 1
            x, y = task(10)
            total = total + functional.mse_loss(predict(fast, x), y)
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return total.item() / len(tasks)


def main(steps=40):
    torch.manual_seed(0)
    learner = MetaLearner()
    for step in range(steps):
        loss = learner.meta_step([sample_task() for _ in range(4)])
        if step % 10 == 0:
            print(step, loss)


if __name__ == "__main__":
    main()
