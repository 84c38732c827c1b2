"""The categories inferred for snapshots, compared with recordings that have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.snapshot_roles import score

TRAINING = """
import sys, torch, plimsoll
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)

class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)
    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        return self.head(F.gelu(self.second(x)).mean((2, 3)))

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 10)
    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0][:, -1])

def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 3), nn.Flatten(), nn.Linear(64 * 32, 10))

class Momentum(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].mul_(0.9).add_(p.grad)
                p.add_(state["momentum"], alpha=-group["lr"])

MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)),
            lambda m: torch.optim.AdamW(m.parameters()), lambda: torch.randn(256, 128)),
    "convolutional": (Convolutional, lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9),
                      lambda: torch.randn(8, 3, 32, 32)),
    "recurrent": (Recurrent, lambda m: torch.optim.RMSprop(m.parameters()),
                  lambda: torch.randint(0, 500, (8, 40))),
    "transformer": (transformer, lambda m: torch.optim.Adam(m.parameters()),
                    lambda: torch.randn(8, 32, 64)),
    "own_optimizer": (Convolutional, lambda m: Momentum(m.parameters()),
                      lambda: torch.randn(8, 3, 32, 32)),
}

name, path = sys.argv[1:]
make, optimize, batch = MODELS[name]
with plimsoll.record(path):
    model = make()
    optimizer = optimize(model)
    for _ in range(5):
        x = batch()
        y = torch.randint(0, 10, (len(x),))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "model", ["mlp", "convolutional", "recurrent", "transformer", "own_optimizer"]
)
@pytest.mark.slow
def test_inferred_categories_are_right(model: str, tmp_path: Path) -> None:
    script, recording = tmp_path / "train.py", tmp_path / "run.plim"
    script.write_text(TRAINING)
    subprocess.run([sys.executable, script, model, recording], check=True)
    result = score(str(recording))
    assert result.right >= 0.95, result
    assert result.wrong <= 0.02, result
