"""Training runs made up by hypothesis: a list of choices, and the program that follows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from tests.recording.programs import Held
from torch import nn
from torch.utils.checkpoint import checkpoint

ACTIVATIONS = (nn.ReLU, nn.GELU, nn.Tanh, nn.Sigmoid, nn.LayerNorm, nn.Dropout, nn.Identity)
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, foreach=True),
    "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, fused=True),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True),
}


@dataclass(frozen=True)
class Plan:
    widths: tuple[int, ...]
    activations: tuple[int, ...]
    optimizer: str
    batch: int
    steps: int
    frozen: frozenset[int]
    checkpointed: frozenset[int]
    residual: frozenset[int]
    in_place: bool
    autocast: bool
    set_to_none: bool
    accumulation: int
    keeps_loss: bool


small = st.integers(1, 40)
layer_numbers = st.frozensets(st.integers(0, 4), max_size=3)
plans = st.builds(
    Plan,
    widths=st.lists(small, min_size=2, max_size=5).map(tuple),
    activations=st.lists(st.integers(0, len(ACTIVATIONS) - 1), min_size=5, max_size=5).map(tuple),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    batch=st.integers(1, 9),
    steps=st.integers(1, 3),
    frozen=layer_numbers,
    checkpointed=layer_numbers,
    residual=layer_numbers,
    in_place=st.booleans(),
    autocast=st.booleans(),
    set_to_none=st.booleans(),
    accumulation=st.integers(1, 3),
    keeps_loss=st.booleans(),
)


class Block(nn.Module):
    def __init__(self, before: int, after: int, plan: Plan, number: int) -> None:
        super().__init__()
        kind = ACTIVATIONS[plan.activations[number]]
        self.linear = nn.Linear(before, after)
        if kind is nn.ReLU:
            self.activation: nn.Module = nn.ReLU(inplace=plan.in_place)
        else:
            self.activation = kind(after) if kind is nn.LayerNorm else kind()
        self.adds = number in plan.residual and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.activation(self.linear(x))
        return x + y if self.adds else y


class Model(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        pairs = zip(plan.widths, plan.widths[1:], strict=False)
        self.blocks = nn.ModuleList([Block(a, b, plan, i) for i, (a, b) in enumerate(pairs)])
        self.checkpointed = plan.checkpointed
        for number, block in enumerate(self.blocks):
            block.linear.requires_grad_(number not in plan.frozen or len(self.blocks) == 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            if number in self.checkpointed:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return x


def run(plan: Plan) -> Iterator[Held]:
    model = Model(plan)
    parameters: list[Any] = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        return
    optimizer = OPTIMIZERS[plan.optimizer](parameters)
    kept = []
    for _ in range(plan.steps):
        optimizer.zero_grad(set_to_none=plan.set_to_none)
        for _ in range(plan.accumulation):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=plan.autocast):
                loss = model(torch.randn(plan.batch, plan.widths[0])).float().square().mean()
            loss.backward()
        optimizer.step()
        if plan.keeps_loss:
            kept.append(loss)
        yield [model], [optimizer]
