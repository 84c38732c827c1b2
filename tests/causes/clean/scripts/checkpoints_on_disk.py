"""Saves a checkpoint to disk every four steps and reads the best one back at the end."""

import tempfile
from pathlib import Path

import torch
from torch import nn


def main(steps=24):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(128, 768), nn.Tanh(), nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        best = (float("inf"), None)
        for step in range(steps):
            x = torch.randn(64, 128)
            loss = nn.functional.mse_loss(model(x).squeeze(1), x.sum(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 4 == 3:
                path = Path(folder) / f"{step}.pt"
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
                best = min(best, (loss.item(), str(path)))
        state = torch.load(best[1])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    print(best)


if __name__ == "__main__":
    main()
