"""Memory that DataLoader workers have for themselves: the monitor's host line, and its alert."""

import itertools
import re

import pytest
import torch
from tests.support.waiting import wait_until
from torch.utils.data import DataLoader, Dataset

from plimsoll import TrainingMonitor, _record

LEAKED_BYTES = 8 << 20  # by one sample, in its worker
STEPS = 28
WORKERS = 2


class LeakyDataset(Dataset):
    def __init__(self) -> None:
        self.cache: list[bytearray] = []

    def __len__(self) -> int:
        return STEPS + WORKERS  # each worker prepares one sample that the loop does not take

    def __getitem__(self, index: int) -> torch.Tensor:
        self.cache.append(bytearray(b"x") * LEAKED_BYTES)
        return torch.ones(8)


def workers_bytes() -> int:
    return _record.take_sample().host.workers_bytes or 0


@pytest.mark.slow
def test_a_dataset_that_leaks_in_two_workers_is_reported(tmp_path, unwatched):
    alerts = []
    loader = DataLoader(LeakyDataset(), num_workers=WORKERS, prefetch_factor=1)
    last = 0
    with TrainingMonitor(
        interval=1, output_dir=str(tmp_path), alerts=True, on_alert=alerts.append
    ) as monitor:
        for _ in itertools.islice(loader, STEPS):
            # Workers are read rarely. Each batch that is taken makes them leak once more.
            wait_until(lambda last=last: workers_bytes() > last + LEAKED_BYTES // 2)
            last = workers_bytes()
            monitor.step()
    (log,) = (tmp_path / "profiles").glob("*.log")
    lines = re.findall(r"^Host: .*workers ([\d.]+) MB in (\d)", log.read_text(), re.MULTILINE)
    assert len(lines) == STEPS
    assert {count for _, count in lines} == {"2"}
    sizes = [float(size) for size, _ in lines]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] >= STEPS * LEAKED_BYTES / (1 << 20)
    found = [alert for alert in alerts if alert.subject == "workers"]
    assert [(alert.id, alert.device) for alert in found[:1]] == [("memory_growth", "host")]
    assert "Memory of workers on host keeps growing" in found[0].title
