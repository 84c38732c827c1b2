"""The program that `plimsoll demo` records: a small model and a common mistake."""

import torch
from torch import nn

STEPS = 30


def classifier(width: int = 256) -> nn.Module:
    """A model with two hidden layers and a score for each of ten classes."""
    return nn.Sequential(
        nn.Linear(64, width),
        nn.GELU(),
        nn.Linear(width, width),
        nn.GELU(),
        nn.Linear(width, 10),
    )


def train() -> list[torch.Tensor]:
    """Train on noise, and return the validation losses."""
    torch.manual_seed(0)
    model = classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    images, labels = torch.randn(512, 64), torch.randint(10, (512,))
    validation_losses = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # The mistake: without torch.no_grad(), each of these losses retains its whole graph.
        validation_loss = nn.functional.cross_entropy(model(images), labels)
        validation_losses.append(validation_loss)
    return validation_losses


if __name__ == "__main__":
    print(f"trained {len(train())} steps")
