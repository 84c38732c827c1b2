"""Fine-tuning a small MobileNet on thumbnails, which the collate function brings to 448 pixels."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Thumbnails(Dataset):
    def __init__(self, count=64):
        self.pictures = torch.randint(0, 256, (count, 3, 56, 56), dtype=torch.uint8)
        self.labels = torch.randint(6, (count,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pictures[index], self.labels[index]


def collate(samples, size=448):
    pictures = torch.stack([p for p, _ in samples]).float() / 255
    pictures = functional.interpolate(pictures, size=(size, size), mode="bilinear")
    return pictures, torch.stack([y for _, y in samples])


class Inverted(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.depth = nn.Conv2d(i, i, 3, stride, 1, groups=i)
        self.point = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return functional.relu6(self.point(functional.relu6(self.depth(x))))


class MobileNet(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 8, 1)
        self.body = nn.Sequential(Inverted(8, 16, 2), Inverted(16, 32, 2), Inverted(32, 64, 2))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.body(functional.relu6(self.stem(x))).mean((2, 3)))


def main(epochs=2):
    torch.manual_seed(0)
    loader = DataLoader(Thumbnails(), batch_size=16, shuffle=True, collate_fn=collate)
    model = MobileNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        for x, y in loader:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
