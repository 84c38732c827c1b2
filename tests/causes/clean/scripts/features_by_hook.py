"""Every tenth step a hook reads the features for a plot, and is removed afterwards."""

import torch
from torch import nn


class FeatureReader:
    def __init__(self, module):
        self.features = []
        self.handle = module.register_forward_hook(lambda m, i, o: self.features.append(o.detach()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.handle.remove()


def main(steps=40):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(48, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(384, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    plots = []
    for step in range(steps):
        x, y = torch.randn(128, 48), torch.randint(3, (128,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            with FeatureReader(body) as reader, torch.no_grad():
                for _ in range(4):
                    model(torch.randn(128, 48))
            plots.append(torch.cat(reader.features).std(0).mean().item())
            del reader
    print(plots)


if __name__ == "__main__":
    main()
