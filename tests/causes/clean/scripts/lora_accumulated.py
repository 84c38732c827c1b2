"""LoRA with a frozen base, four accumulated micro-batches and a loss that is logged as a number."""

import torch
from torch import nn
from torch.nn import functional


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = LoRA(nn.Linear(dim, 3 * dim)), LoRA(nn.Linear(3 * dim, dim))

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def main(steps=12, micro=4):
    torch.manual_seed(0)
    embed, head = nn.Embedding(400, 128).requires_grad_(False), nn.Linear(128, 400)
    body = nn.Sequential(*(Block(128) for _ in range(3)))
    optimizer = torch.optim.AdamW([p for p in body.parameters() if p.requires_grad], lr=1e-3)
    log = []
    for _ in range(steps):
        total = 0.0
        for _ in range(micro):
            ids = torch.randint(400, (4, 49))
            logits = head(body(embed(ids[:, :-1])))
            loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / micro
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(body.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.append(total)
    print(log[-1])


if __name__ == "__main__":
    main()
