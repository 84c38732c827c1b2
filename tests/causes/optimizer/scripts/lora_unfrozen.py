"""LoRA whose base was never frozen: AdamW keeps moments for all of it."""

import torch
from torch import nn
from torch.nn import functional


class Adapted(nn.Module):
    def __init__(self, base, rank=8):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def add_adapters(model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, Adapted(child))
    return model


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.fc1, self.fc2 = (
            nn.LayerNorm(dim),
            nn.Linear(dim, 4 * dim),
            nn.Linear(4 * dim, dim),
        )

    def forward(self, x):
        return x + self.fc2(functional.gelu(self.fc1(self.norm(x))))


def pretrained(dim=320, depth=3):
    return nn.Sequential(
        nn.Embedding(200, dim), *(Mlp(dim) for _ in range(depth)), nn.LayerNorm(dim)
    )


def main(steps=10):
    torch.manual_seed(0)
    model = add_adapters(pretrained())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        ids = torch.randint(200, (4, 16))
        hidden = model(ids)
        loss = functional.cosine_embedding_loss(
            hidden[:2].flatten(0, 1), hidden[2:].flatten(0, 1), torch.ones(32)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
