"""A vision transformer in bfloat16 autocast, with accumulated gradients and averaged weights."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

IMAGE = 32
PATCH = 4
DIM = 96
DEPTH = 3
HEADS = 4
CLASSES = 20
MICRO_BATCH = 8
ACCUMULATE = 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, ratio=4):
        super().__init__()
        self.fc1 = nn.Linear(DIM, ratio * DIM)
        self.fc2 = nn.Linear(ratio * DIM, DIM)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(DIM)
        self.ffn = FeedForward()

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.ffn(self.ln2(x))
        return x


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, DIM, PATCH, PATCH)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, DIM))
        self.pos_embed = nn.Parameter(torch.zeros(1, (IMAGE // PATCH) ** 2 + 1, DIM))
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class EMA:
    def __init__(self, model, decay=0.99):
        self.model = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


def get_batch():
    return torch.rand(MICRO_BATCH, 3, IMAGE, IMAGE), torch.randint(CLASSES, (MICRO_BATCH,))


def train_step(model, optimizer, scheduler):
    optimizer.zero_grad()
    running = 0.0
    for _ in range(ACCUMULATE):
        images, labels = get_batch()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
        (loss / ACCUMULATE).backward()
        running += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    return running / ACCUMULATE


def main(steps=6):
    torch.manual_seed(0)
    model = ViT()
    ema = EMA(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    for _ in range(steps):
        history.append(train_step(model, optimizer, scheduler))
        ema.update(model)
    return history


if __name__ == "__main__":
    main()
