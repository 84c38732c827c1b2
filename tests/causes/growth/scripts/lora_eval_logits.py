"""LoRA finetuning; every evaluation adds its logits to a list that the trainer never empties."""

import torch
from torch import nn
from torch.nn import functional


class LoRALinear(nn.Module):
    def __init__(self, inputs, outputs, rank=4, alpha=8):
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, inputs) * 0.01)
        self.b = nn.Parameter(torch.zeros(outputs, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.T @ self.b.T)


class Block(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = LoRALinear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=2000, dim=96, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.lm_head = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(x)


class Trainer:
    def __init__(self, model):
        self.model = model
        trained = [p for name, p in model.named_parameters() if name.endswith((".a", ".b"))]
        for name, p in model.named_parameters():
            p.requires_grad_(name.endswith((".a", ".b")))
        self.optimizer = torch.optim.AdamW(trained, lr=1e-3)
        self.eval_logits, self.eval_labels = [], []

    def train_step(self, ids):
        self.model.train()
        logits = self.model(ids[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, batches):
        self.model.eval()
        for ids in batches:
            self.eval_logits.append(self.model(ids[:, :-1]))
            self.eval_labels.append(ids[:, 1:])
        return functional.cross_entropy(
            self.eval_logits[-1].flatten(0, 1), self.eval_labels[-1].flatten()
        ).item()


def main():
    torch.manual_seed(0)
    trainer = Trainer(LanguageModel())
    held_out = [torch.randint(2000, (8, 65)) for _ in range(2)]
    for step in range(32):
        loss = trainer.train_step(torch.randint(2000, (8, 65)))
        if step % 4 == 3:
            print(step, loss, trainer.evaluate(held_out))


if __name__ == "__main__":
    main()
