"""Differentially private training; the gradients of all samples in a batch exist simultaneously."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional


def make_model():
    return nn.Sequential(
        nn.Linear(100, 256), nn.Tanh(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 10)
    )


class PrivateTrainer:
    def __init__(self, model, rate=0.1, bound=1.0, noise=0.8):
        self.model, self.bound, self.noise = model, bound, noise
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def sample_loss(self, parameters, x, y):
        out = functional_call(self.model, parameters, (x[None],))
        return functional.cross_entropy(out, y[None])

    def per_sample_gradients(self, x, y):
        parameters = {name: p.detach() for name, p in self.model.named_parameters()}
        return vmap(grad(self.sample_loss), in_dims=(None, 0, 0))(parameters, x, y)

    def step(self, x, y):
        gradients = self.per_sample_gradients(x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        factor = (self.bound / norms).clamp(max=1.0)
        for name, p in self.model.named_parameters():
            total = torch.einsum("b,b...->...", factor, gradients[name])
            p.grad = (total + self.noise * self.bound * torch.randn_like(p)) / len(x)
        self.optimizer.step()
        return norms.mean().item()


def main(steps=8):
    torch.manual_seed(0)
    trainer = PrivateTrainer(make_model())
    for step in range(steps):
        print(step, trainer.step(torch.randn(128, 100), torch.randint(10, (128,))))


if __name__ == "__main__":
    main()
