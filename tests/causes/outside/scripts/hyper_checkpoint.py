"""A hypernetwork makes the weights of small networks; every epoch is saved as one file."""

import os
import tempfile

import torch
from torch import nn
from torch.nn import functional


class HyperNetwork(nn.Module):
    """From the embedding of a task to all weights of a two-layer network."""

    def __init__(self, tasks=16, inputs=24, hidden=96, outputs=8, width=384):
        super().__init__()
        self.shapes = [(hidden, inputs), (hidden,), (outputs, hidden), (outputs,)]
        self.tasks = nn.Embedding(tasks, 64)
        self.body = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width))
        self.heads = nn.ModuleList(
            nn.Linear(width, torch.Size(shape).numel()) for shape in self.shapes
        )

    def forward(self, task):
        code = functional.gelu(self.body(self.tasks(task)))
        return [
            head(code).view(shape) * 0.1
            for head, shape in zip(self.heads, self.shapes, strict=False)
        ]


def apply_weights(x, weights):
    first, bias1, second, bias2 = weights
    return functional.linear(functional.relu(functional.linear(x, first, bias1)), second, bias2)


class Regression:
    def __init__(self, tasks=16):
        self.maps = torch.randn(tasks, 24, 8) / 5

    def batch(self, task, size=64):
        x = torch.randn(size, 24)
        return x, torch.tanh(x @ self.maps[task])


def portable(state, dtype):
    """Tensors of a nested state as contiguous copies in one dtype."""
    if isinstance(state, torch.Tensor):
        return state.detach().to(dtype, copy=True) if state.is_floating_point() else state.clone()
    if isinstance(state, dict):
        return {key: portable(value, dtype) for key, value in state.items()}
    if isinstance(state, list):
        return [portable(value, dtype) for value in state]
    return state


class Checkpointer:
    def __init__(self, folder, dtype=torch.float64):
        self.folder, self.dtype = folder, dtype

    def save(self, model, optimizer, epoch):
        content = {
            "model": portable(model.state_dict(), self.dtype),
            "optimizer": portable(optimizer.state_dict(), self.dtype),
            "epoch": epoch,
        }
        path = os.path.join(self.folder, "last.pt")
        torch.save(content, path + ".part")
        os.replace(path + ".part", path)
        return os.path.getsize(path)


@torch.no_grad()
def evaluate(model, data, tasks=16):
    losses = []
    for task in range(tasks):
        x, y = data.batch(task)
        losses.append(functional.mse_loss(apply_weights(x, model(torch.tensor(task))), y))
    return torch.stack(losses).mean().item()


def main(epochs=3, steps=16):
    torch.manual_seed(0)
    data, model = Regression(), HyperNetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        checkpointer = Checkpointer(folder)
        for epoch in range(epochs):
            for step in range(steps):
                x, y = data.batch(step % 16)
                loss = functional.mse_loss(apply_weights(x, model(torch.tensor(step % 16))), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            size = checkpointer.save(model, optimizer, epoch)
            print(f"epoch {epoch}: {evaluate(model, data):.4f}, saved {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
