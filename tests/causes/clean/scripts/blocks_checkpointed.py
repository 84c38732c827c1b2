"""Each block under a checkpoint, the loss in chunks, gradients of two micro batches."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.pr = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            z.view(b, t, 4, d // 4).transpose(1, 2) for z in self.qkv(self.ln1(x)).chunk(3, -1)
        )
        x = x + self.o(
            nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(b, t, d)
        )
        return x + self.pr(nn.functional.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, v=2000, d=192, n=8):
        super().__init__()
        self.wte = nn.Embedding(v, d)
        self.h = nn.ModuleList(Block(d) for _ in range(n))
        self.lm_head = nn.Linear(d, v, bias=False)

    def loss(self, ids):
        x = self.wte(ids[:, :-1])
        for blk in self.h:
            x = checkpoint(blk, x, use_reentrant=False)
        total, parts = 0.0, 0
        for xc, yc in zip(x.flatten(0, 1).chunk(8), ids[:, 1:].flatten().chunk(8), strict=False):
            total = total + checkpoint(
                lambda a, b: nn.functional.cross_entropy(self.lm_head(a), b),
                xc,
                yc,
                use_reentrant=False,
            )
            parts += 1
        return total / parts


model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(4):
    for _ in range(2):
        loss = model.loss(torch.randint(0, 2000, (8, 257))) / 2
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    print(step, loss.item())
