"""An exponential average of the weights, begun after a warm-up and swapped in for evaluation."""

import copy

import torch
from torch import nn


def main(steps=30):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    average = None
    for step in range(steps):
        x, y = torch.randn(64, 64), torch.randint(4, (64,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 10:
            average = copy.deepcopy(model).requires_grad_(False)
        if average is not None:
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters(), strict=False):
                    a.lerp_(p, 0.01)
            if step % 5 == 0:
                backup = {k: v.clone() for k, v in model.state_dict().items()}
                model.load_state_dict(average.state_dict())
                with torch.no_grad():
                    score = model(x).argmax(1).eq(y).float().mean().item()
                model.load_state_dict(backup)
                del backup
    print(loss.item(), score)


if __name__ == "__main__":
    main()
