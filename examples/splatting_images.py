"""Pictures and checkpoints for gaussian_splatting.py, and measures of how pictures differ."""

from __future__ import annotations

import math
import re
from pathlib import Path

import torch
import torch.nn.functional as F


def draw(size: int) -> torch.Tensor:
    """The picture, (3, size, size) in 0..1: a ship on the sea, with soft and sharp parts."""
    axis = (torch.arange(size) + 0.5) / size
    y, x = torch.meshgrid(axis, axis, indexing="ij")

    def cover(inside: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(inside * size * 2)  # an edge of about a pixel

    def paint(image: torch.Tensor, inside: torch.Tensor, colour: tuple) -> torch.Tensor:
        mask = cover(inside)
        return image * (1 - mask) + torch.tensor(colour).view(3, 1, 1) * mask

    sky = torch.stack([0.95 - 0.5 * y, 0.75 - 0.2 * y, 0.6 + 0.3 * y])
    sun = 0.4 * torch.exp(-((x - 0.75) ** 2 + (y - 0.22) ** 2) / 0.01)
    image = (sky + sun * torch.tensor([1.0, 0.7, 0.2]).view(3, 1, 1)).clamp(0, 1)
    for left, right, top in ((0.30, 0.47, 0.18), (0.49, 0.62, 0.26)):  # sails
        slope = (x - left) - (right - left) * (0.62 - y) / (0.62 - top) * 0.35
        sail = torch.minimum(torch.minimum(slope, right - x), torch.minimum(y - top, 0.62 - y))
        image = paint(image, sail, (0.96, 0.94, 0.86))
    for mast in (0.475, 0.63):
        image = paint(image, torch.minimum(0.006 - (x - mast).abs(), y - 0.12), (0.3, 0.18, 0.1))
    deck = torch.minimum(y - 0.64, 0.80 - y)
    hull = torch.minimum(
        deck, torch.minimum(x - 0.2 - (y - 0.64) * 0.4, 0.8 - x - (y - 0.64) * 0.5)
    )
    image = paint(image, hull, (0.35, 0.1, 0.1))
    ring = 0.006 - (((x - 0.5) ** 2 + (y - 0.71) ** 2).sqrt() - 0.03).abs()
    image = paint(image, ring, (0.95, 0.95, 0.95))
    line = torch.minimum(0.004 - (y - 0.71).abs(), 0.055 - (x - 0.5).abs())
    image = paint(image, line, (0.95, 0.95, 0.95))  # the load line
    waves = 0.015 * torch.sin(40 * x + 6 * torch.sin(7 * x)) + 0.008 * torch.sin(90 * x - 20 * y)
    water = torch.stack([0.1 + 0.1 * y, 0.25 + 0.25 * y, 0.35 + 0.3 * y]) + 4 * waves * (y - 0.7)
    mask = cover(y - 0.76 - waves)
    return (image * (1 - mask) + water * mask).clamp(0, 1)


def read_ppm(path: Path, size: int) -> torch.Tensor:
    """A binary PPM picture, scaled to (3, size, size) in 0..1."""
    data = path.read_bytes()
    header = re.match(rb"P6\s+(?:#.*\s+)*(\d+)\s+(\d+)\s+255\s", data)
    if header is None:
        raise ValueError(f"{path} is not a binary PPM picture of 8 bits (P6)")
    width, height = int(header[1]), int(header[2])
    pixels = torch.frombuffer(bytearray(data[header.end() :]), dtype=torch.uint8)
    if len(pixels) != width * height * 3:
        raise ValueError(f"{path} has {len(pixels)} bytes of pixels, not {width * height * 3}")
    image = pixels.view(1, height, width, 3).permute(0, 3, 1, 2).float() / 255
    return F.interpolate(image, size=(size, size), mode="bilinear", antialias=True)[0].clamp(0, 1)


def picture(path: Path | None, size: int) -> torch.Tensor:
    """The picture to fit: the user's, or the built-in one."""
    return draw(size) if path is None else read_ppm(path, size)


def similarity(image: torch.Tensor, target: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    """SSIM of two images, averaged."""

    def blur(x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x.unsqueeze(0), window, padding=window.shape[-1] // 2, groups=3)

    mean, mean_target = blur(image), blur(target)
    variance = blur(image * image) - mean**2
    variance_target = blur(target * target) - mean_target**2
    covariance = blur(image * target) - mean * mean_target
    first = (2 * mean * mean_target + 0.01**2) / (mean**2 + mean_target**2 + 0.01**2)
    second = (2 * covariance + 0.03**2) / (variance + variance_target + 0.03**2)
    return (first * second).mean()


def blur_window(device: torch.device) -> torch.Tensor:
    line = torch.exp(-((torch.arange(11.0) - 5) ** 2) / (2 * 1.5**2))
    line = line / line.sum()
    return (line[:, None] * line[None, :]).expand(3, 1, 11, 11).contiguous().to(device)


def psnr(image: torch.Tensor, target: torch.Tensor) -> float:
    return -10 * math.log10(F.mse_loss(image.clamp(0, 1), target).item())


def held_out_pixels(size: int, share: float, seed: int) -> torch.Tensor:
    """A mask, (1, size, size), with this share of the pixels, which training must not use."""
    return torch.rand(1, size, size, generator=torch.Generator().manual_seed(seed)) < share


def held_out_metrics(
    image: torch.Tensor, target: torch.Tensor, held_out: torch.Tensor
) -> dict[str, float]:
    """PSNR and L1 over the pixels that training did not use."""
    mask = held_out.expand_as(target)
    return {
        "pixels": int(held_out.sum()),
        "psnr": round(psnr(image[mask], target[mask]), 4),
        "l1": round(F.l1_loss(image[mask], target[mask]).item(), 6),
    }


def newest_checkpoint(path: Path) -> Path:
    """The file itself, or the checkpoint of the last iteration in a folder."""
    if not path.is_dir():
        return path
    saved = sorted(path.glob("checkpoint_*.pt"), key=lambda file: int(file.stem.split("_")[1]))
    if not saved:
        raise FileNotFoundError(f"{path} holds no checkpoint_*.pt")
    return saved[-1]


def read_checkpoint(path: Path, device: torch.device | str) -> dict:
    """The state in a checkpoint, or in the newest one of a folder."""
    file = newest_checkpoint(path)
    try:
        saved = torch.load(file, map_location=device)
    except Exception as error:  # torch raises many kinds, by what the file holds
        raise ValueError(f"{file} is no checkpoint: torch.load cannot read it") from error
    if not isinstance(saved, dict) or not {"gaussians", "optimizer", "iteration"} <= saved.keys():
        raise ValueError(f"{file} is no checkpoint of gaussian_splatting.py")
    return saved


def check_files(scene: Path | None, checkpoint: Path | None) -> None:
    """Raises an error of one sentence if a file cannot be read."""
    for path in (scene, checkpoint):
        if path is not None and not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file")
    if scene is not None and scene.is_dir():
        raise IsADirectoryError(f"{scene} is a folder, not a picture")
    picture(scene, size=16)
    if checkpoint is not None:
        read_checkpoint(checkpoint, "cpu")
