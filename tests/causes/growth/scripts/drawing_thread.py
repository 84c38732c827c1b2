"""Optical flow; a thread draws the flow fields, so that training does not wait for the disk."""

import queue
import threading
import time

import torch
from torch import nn
from torch.nn import functional


class FlowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(6, 16, 7, stride=4, padding=3)
        self.refine = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, frames):
        x = functional.relu(self.refine(functional.relu(self.encode(frames))))
        return functional.interpolate(x, scale_factor=4, mode="bilinear")[:, :2]


def draw(waiting):
    while True:
        frames, flow = waiting.get()
        time.sleep(0.8)  # matplotlib, then a slow network disk
        del frames, flow


def main(steps=48):
    torch.manual_seed(0)
    waiting = queue.Queue()
    threading.Thread(target=draw, args=(waiting,), daemon=True).start()
    model = FlowNet()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        frames = torch.rand(4, 6, 128, 128)
        flow = model(frames)
        loss = (flow - (frames[:, :2] - frames[:, 3:5])).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        waiting.put((frames, flow.detach()))


main()
