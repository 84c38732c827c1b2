"""Distillation: the teacher's logits of the whole training set are computed before it starts."""

import torch
from torch import nn
from torch.nn import functional


class ConvNet(nn.Module):
    def __init__(self, width, classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width * 2, 3, 2, 1), nn.ReLU()
        )
        self.head = nn.Linear(width * 2, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


@torch.no_grad()
def precompute(teacher, pictures, batch=128):
    return [teacher(pictures[i : i + batch]) for i in range(0, len(pictures), batch)]


def main(epochs=2, count=8192, batch=128):
    torch.manual_seed(0)
    teacher, student = ConvNet(24).eval(), ConvNet(8)
    pictures = torch.rand(count, 3, 16, 16)
    soft = precompute(teacher, pictures)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for epoch in range(epochs):
        for i in range(0, 12 * batch, batch):
            out = student(pictures[i : i + batch])
            loss = functional.kl_div(
                functional.log_softmax(out / 4, 1),
                functional.softmax(soft[i // batch] / 4, 1),
                reduction="batchmean",
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
