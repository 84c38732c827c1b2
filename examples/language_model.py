#!/usr/bin/env python3
"""A transformer language model that learns to write a ship's log, letter by letter.

The text, data/ships_log.txt, was written for this repository. The model is the usual one: pre-norm
blocks of causal attention and an MLP, AdamW with a cosine schedule, clipped gradients. The flags
are those that affect memory: --batch-size and --accumulate, --checkpoint, --tied, --amp, --context.

    python examples/language_model.py                    # about 25 s on two slow cores
    plimsoll run examples/language_model.py --checkpoint # with activation checkpointing, recorded
    python examples/language_model.py --device cuda --amp --width 768 --layers 12 --heads 12
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

TEXT = Path(__file__).resolve().parent / "data" / "ships_log.txt"


class Text:
    """The letters of a text as numbers; its last tenth is held out."""

    def __init__(self, path: Path, device: torch.device) -> None:
        text = path.read_text(encoding="utf-8")
        self.letters = sorted(set(text))
        self.number = {letter: index for index, letter in enumerate(self.letters)}
        numbers = torch.tensor([self.number[letter] for letter in text])
        cut = len(numbers) * 9 // 10
        self.train = numbers[:cut].to(device)
        self.held_out = numbers[cut:].to(device)

    def batch(
        self, numbers: torch.Tensor, size: int, context: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`size` random pieces of the text, and the letter that follows each of their letters."""
        starts = torch.randint(len(numbers) - context - 1, (size, 1), generator=generator)
        places = (starts + torch.arange(context + 1)).to(numbers.device)
        pieces = numbers[places]
        return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()

    def write(self, numbers: torch.Tensor) -> str:
        return "".join(self.letters[number] for number in numbers.tolist())


class Attention(nn.Module):
    """Causal attention with several heads."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=-1)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    """Two linear layers; the inner width is four times the outer one."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.down(self.act(self.up(x))))


class Block(nn.Module):
    """Attention and MLP, each with a norm before it and a shortcut around it."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """Predicts the probability of each next letter."""

    def __init__(self, letters: int, args: argparse.Namespace) -> None:
        super().__init__()
        self.context = args.context
        self.checkpoint = args.checkpoint
        self.letter = nn.Embedding(letters, args.width)
        self.place = nn.Embedding(args.context, args.width)
        self.blocks = nn.ModuleList(
            Block(args.width, args.heads, args.dropout) for _ in range(args.layers)
        )
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, letters, bias=False)
        self.apply(self._initialise)
        if args.tied:
            self.head.weight = self.letter.weight

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        places = torch.arange(numbers.shape[1], device=numbers.device)
        x = self.letter(numbers) + self.place(places)
        for block in self.blocks:
            if self.checkpoint and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(self.norm(x))


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())


@torch.no_grad()
def held_out_loss(model: nn.Module, text: Text, args: argparse.Namespace) -> float:
    """The same four batches every time."""
    generator = torch.Generator().manual_seed(args.seed)
    model.eval()
    losses = [
        loss_of(model, *text.batch(text.held_out, args.batch_size, args.context, generator)).item()
        for _ in range(4)
    ]
    model.train()
    return sum(losses) / len(losses)


@torch.no_grad()
def sample(model: LanguageModel, text: Text, prompt: str, length: int, seed: int) -> str:
    """The prompt and the model's continuation."""
    device = text.train.device
    generator = torch.Generator(device).manual_seed(seed)
    numbers = torch.tensor([[text.number[letter] for letter in prompt]], device=device)
    window = max(1, model.context // 2)  # after short training, the last positions are the weakest
    model.eval()
    for _ in range(length):
        odds = F.softmax(model(numbers[:, -window:])[:, -1].float() / 0.7, dim=-1)
        numbers = torch.cat([numbers, torch.multinomial(odds, 1, generator=generator)], dim=1)
    model.train()
    return text.write(numbers[0])


def optimizer_of(model: nn.Module, args: argparse.Namespace) -> torch.optim.AdamW:
    """Creates AdamW with weight decay for matrices, not for biases and norms."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": args.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=args.lr,
        betas=(0.9, 0.99),
    )


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """Share of --lr: rises in the first tenth, then falls to a tenth along a cosine."""
    warmup = max(1, args.steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, args.steps - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def train(model: LanguageModel, text: Text, args: argparse.Namespace) -> None:
    """Makes --steps optimizer steps of --accumulate batches each."""
    generator = torch.Generator().manual_seed(args.seed)
    optimizer = optimizer_of(model, args)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: learning_rate(s, args))
    device = text.train.device
    began = time.perf_counter()
    for step in range(1, args.steps + 1):
        total = 0.0
        for _ in range(args.accumulate):
            x, y = text.batch(text.train, args.batch_size, args.context, generator)
            with torch.autocast(device.type, torch.bfloat16, enabled=args.amp):
                loss = loss_of(model, x, y) / args.accumulate
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % args.report_every == 0 or step == args.steps:
            print(
                f"step {step}  train loss {total:.3f}  "
                f"val loss {held_out_loss(model, text, args):.3f}  "
                f"{time.perf_counter() - began:.1f} s",
                flush=True,
            )


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--text", type=Path, default=TEXT, help="any UTF-8 text")
    parser.add_argument("--steps", type=int, default=360, help="optimizer steps (360)")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=1, help="batches per step (1)")
    parser.add_argument("--context", type=int, default=128, help="context length in letters (128)")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--tied", action="store_true", help="one matrix for embedding and head")
    parser.add_argument("--checkpoint", action="store_true", help="recompute blocks in backward")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument(
        "--report-every", type=int, default=40, help="steps between printed lines (40)"
    )
    parser.add_argument("--sample", type=int, default=240, help="letters to write at the end (240)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 (cpu)")
    parser.add_argument("--amp", action="store_true", help="forward in bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.width % args.heads:
        parser.error(f"--width {args.width} is no multiple of --heads {args.heads}")
    if not args.text.is_file():
        parser.error(f"{args.text}: there is no such file")
    try:
        letters = len(args.text.read_text(encoding="utf-8"))
    except ValueError as error:
        parser.error(f"{args.text} is not UTF-8: {error}")
    needed = 10 * (args.context + 2)  # the last tenth is held out
    if letters < needed:
        parser.error(f"{args.text} has {letters} letters; --context {args.context} needs {needed}")
    return args


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    text = Text(args.text, device)
    model = LanguageModel(len(text.letters), args).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"transformer of {parameters:,} parameters, {len(text.letters)} letters", flush=True)
    train(model, text, args)
    if args.sample > 0:
        print(sample(model, text, text.letters[0], args.sample, args.seed).strip())


if __name__ == "__main__":
    main()
