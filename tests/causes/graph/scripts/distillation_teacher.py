"""Distillation; the big teacher runs with gradients although its output is detached later."""

import torch
from torch import nn
from torch.nn import functional


class ConvBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class Classifier(nn.Module):
    def __init__(self, width, classes=20):
        super().__init__()
        self.blocks = nn.Sequential(
            ConvBlock(3, width, 1), ConvBlock(width, width, 2), ConvBlock(width, 2 * width, 2)
        )
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.fc(self.blocks(x).mean((2, 3)))


class Distiller:
    def __init__(self, teacher, student, temperature=4.0):
        self.teacher, self.student, self.temperature = teacher.eval(), student, temperature
        self.optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)

    def step(self, x, y):
        t = self.temperature
        taught = self.teacher(x)
        learnt = self.student(x)
        soft = functional.kl_div(
            (learnt / t).log_softmax(1), (taught.detach() / t).softmax(1), reduction="batchmean"
        )
        loss = functional.cross_entropy(learnt, y) + t * t * soft
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main(steps=6):
    torch.manual_seed(0)
    distiller = Distiller(Classifier(48), Classifier(8))
    for step in range(steps):
        print(step, distiller.step(torch.rand(8, 3, 48, 48), torch.randint(20, (8,))))


if __name__ == "__main__":
    main()
