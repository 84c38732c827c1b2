"""Behaviour cloning of a robot arm, trained with Shampoo: a matrix on each side of a gradient."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, momentum=0.9, epsilon=1e-3, every=5):
        super().__init__(params, {"lr": lr, "momentum": momentum, "epsilon": epsilon})
        self.every = every

    @staticmethod
    def inverse_root(matrix, power):
        values, vectors = torch.linalg.eigh(matrix)
        return vectors * values.clamp(min=1e-6).pow(-1 / power) @ vectors.T

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad, self.state[p]
                if not state:
                    state["step"] = 0
                    state["momentum"] = torch.zeros_like(p)
                    for dim, size in enumerate(p.shape):
                        state[f"precond_{dim}"] = group["epsilon"] * torch.eye(size)
                        state[f"inverse_{dim}"] = torch.eye(size)
                        state[f"vectors_{dim}"] = torch.eye(size)
                for dim, size in enumerate(p.shape):
                    rows = grad.transpose(0, dim).reshape(size, -1)
                    state[f"precond_{dim}"].addmm_(rows, rows.T)
                    if state["step"] % self.every == 0:
                        root = self.inverse_root(state[f"precond_{dim}"], 2 * p.ndim)
                        state[f"inverse_{dim}"].copy_(root)
                    rows = state[f"inverse_{dim}"] @ rows
                    grad = rows.reshape(grad.transpose(0, dim).shape).transpose(0, dim)
                state["step"] += 1
                state["momentum"].mul_(group["momentum"]).add_(grad)
                p.add_(state["momentum"], alpha=-group["lr"])


class GaussianPolicy(nn.Module):
    def __init__(self, observations=64, actions=7, width=1024):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.mean = nn.Linear(width, actions)
        self.log_std = nn.Parameter(torch.zeros(actions))

    def forward(self, observations):
        return torch.distributions.Normal(self.mean(self.trunk(observations)), self.log_std.exp())


def demonstrations(count):
    observations = torch.randn(count, 64)
    expert = torch.randn(64, 7, generator=torch.Generator().manual_seed(5)) / 8
    return TensorDataset(observations, torch.tanh(observations @ expert))


@torch.no_grad()
def imitation_error(policy, dataset):
    observations, actions = dataset.tensors
    return functional.mse_loss(policy(observations).mean, actions).item()


def main(epochs=2):
    torch.manual_seed(0)
    train, test = demonstrations(640), demonstrations(100)
    policy = GaussianPolicy()
    optimizer = Shampoo(policy.parameters())
    for epoch in range(epochs):
        for observations, actions in DataLoader(train, batch_size=64, shuffle=True):
            loss = -policy(observations).log_prob(actions).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        error = imitation_error(policy, test)
        print(f"epoch {epoch}: likelihood {-loss.item():.3f}, error {error:.4f}")


if __name__ == "__main__":
    main()
