"""ReLoRA: low-rank adapters are merged into the weights and restarted, cycle after cycle."""

import torch
from torch import nn
from torch.nn import functional


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.scale * x * x.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()


class LoraLinear(nn.Module):
    def __init__(self, inputs, outputs, rank=64):
        super().__init__()
        self.rank = rank
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5, requires_grad=False)
        self.restart()

    def restart(self):
        outputs, inputs = self.weight.shape
        self.a = nn.Parameter(torch.randn(self.rank, inputs) * inputs**-0.5)
        self.b = nn.Parameter(torch.zeros(outputs, self.rank))

    @torch.no_grad()
    def merge(self):
        self.weight += self.b @ self.a

    def forward(self, x):
        return functional.linear(x, self.weight) + functional.linear(x, self.a) @ self.b.T


class SwiGlu(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = RMSNorm(width)
        self.gate = LoraLinear(width, 2 * width)
        self.up = LoraLinear(width, 2 * width)
        self.down = LoraLinear(2 * width, width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class TokenShift(nn.Module):
    """Mixes each position with the one in front of it; cheap in place of attention."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = RMSNorm(width), LoraLinear(width, width)

    def forward(self, x):
        return x + self.mix(self.norm(functional.pad(x, (0, 0, 1, -1))))


class Llama(nn.Module):
    def __init__(self, words=500, width=256, depth=3):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.Sequential(
            *(nn.Sequential(TokenShift(width), SwiGlu(width)) for _ in range(depth))
        )
        self.head = nn.Linear(width, words, bias=False)
        self.embedding.requires_grad_(False)
        self.head.requires_grad_(False)

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


def adapters(model):
    return [module for module in model.modules() if isinstance(module, LoraLinear)]


def restart(model, optimizer):
    for adapter in adapters(model):
        adapter.merge()
        adapter.restart()
    fresh = [p for adapter in adapters(model) for p in (adapter.a, adapter.b)]
    optimizer.add_param_group({"params": fresh, "lr": 1e-3})


def main(cycles=10, steps=4):
    torch.manual_seed(0)
    model = Llama()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for cycle in range(cycles):
        total = 0.0
        for _ in range(steps):
            tokens = torch.randint(500, (4, 65))
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"cycle {cycle}: loss {total / steps:.3f}")
        restart(model, optimizer)


if __name__ == "__main__":
    main()
