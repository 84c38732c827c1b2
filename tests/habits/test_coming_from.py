"""docs/coming-from.md: each example runs, each call and link in it exists."""

import re
from pathlib import Path

import pytest
import torch
from habit_models import Writer, make

import plimsoll

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/coming-from.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_each_example_runs(device, tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("trainer_params: {enable_memory_monitoring: true}\n")
    model, x = make(device)
    optimizer = torch.optim.Adam(model.parameters())

    def train_batch(*_):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    given = {
        "device": device,
        "model": model,
        "x": x,
        "optimizer": optimizer,
        "batches": [x] * 7,
        "epochs": 2,
        "train_batch": train_batch,
        "train_step": train_batch,
        "writer": Writer(),
    }
    exec(compile(EXAMPLES[number], f"example {number}", "exec"), given)


def test_each_name_of_the_package_exists():
    names = set(re.findall(r"\bplimsoll\.([A-Za-z_]\w*)", PAGE)) - {"integrations", "examples"}
    names |= {
        name.strip()
        for line in re.findall(r"from plimsoll import ([\w, ]+)", PAGE)
        for name in line.split(",")
    }
    assert [name for name in sorted(names) if not hasattr(plimsoll, name)] == []


def test_each_section_and_page_that_is_linked_exists():
    headings = re.findall(r"^#+ (.*)$", PAGE, re.M)
    anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, anchor = target.partition("#")
        if file.startswith("http"):
            continue
        if file:
            assert (ROOT / "docs" / file).is_file(), target
        elif anchor:
            assert anchor in anchors, target
