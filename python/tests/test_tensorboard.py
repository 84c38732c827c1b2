"""Plimsoll's event files, as TensorBoard and its data server read them."""

import math
import time
from pathlib import Path

import pytest
from tensorboard import context
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.data import server_ingester
from tensorboard.util import grpc_util
from torch.utils.tensorboard import SummaryWriter

import plimsoll
from plimsoll import _record

STEPS = range(0, 2000, 100)


def made_sample(step: int) -> _record.MemorySample:
    sample = _record.MemorySample()
    sample.time_ns = 1_795_192_813_125_000_000 + step * 1_000_000_000
    sample.iteration = step
    sample.loss = math.nan if step == 300 else 1 / (step + 1)
    device = _record.DeviceMemory()
    device.name = "cuda:0"
    share = _record.MemoryShare()
    share.name, share.size_bytes, share.count = "parameter", 3 * 2**30 + step, 7
    device.live_bytes, device.live_count = share.size_bytes, share.count
    device.categories = [share]
    device.allocated_bytes = 2**40 + step
    device.reserved_bytes = 2**41
    sample.devices = [device]
    return sample


def write(folder: Path) -> Path:
    file = _record.EventFile(str(folder))
    for step in STEPS:
        sample = made_sample(step)
        assert file.write(sample.time_ns, step, _record.scalars_of(sample)) is None
    return Path(file.path)  # not closed: a killed program does not close it either


def write_with_torch(folder: Path) -> None:
    with SummaryWriter(folder) as writer:
        for step in STEPS:
            sample = made_sample(step)
            for tag, value in _record.scalars_of(sample):
                writer.add_scalar(tag, value, step, walltime=sample.time_ns / 1e9)


def read(folder: Path) -> dict[str, list[tuple[float, int, str]]]:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        tag: [
            (event.wall_time, event.step, repr(event.value)) for event in accumulator.Scalars(tag)
        ]
        for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_what_torchs_writer_would_have_written(tmp_path):
    write(tmp_path / "ours")
    write_with_torch(tmp_path / "torchs")
    ours = read(tmp_path / "ours")
    assert ours == read(tmp_path / "torchs")
    assert len(ours["Memory/loss"]) == len(STEPS)
    assert ours["Memory/Tensor_Category/parameters_MB"][0][2] == "3072.0"


def test_a_cut_file_is_read_up_to_its_last_record(tmp_path):
    path = write(tmp_path)
    whole = read(tmp_path)
    for cut in (1, 7, 40):
        path.write_bytes(path.read_bytes()[:-cut])
        assert read(tmp_path)["Memory/vram_reserved"] == whole["Memory/vram_reserved"][:-1]


def test_the_data_server_reads_it(tmp_path):
    server = server_ingester.get_server_binary()
    path = write(tmp_path / "run")
    path.write_bytes(path.read_bytes()[:-1])
    ingester = server_ingester.SubprocessServerDataIngester(
        server_binary=server,
        logdir=str(tmp_path),
        reload_interval=1,
        channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": 0},
    )
    ingester.start()
    asked = {"experiment_id": "", "plugin_name": "scalars"}
    whole = {
        tag: [(step, value) for _, step, value in points]
        for tag, points in read(tmp_path / "run").items()
    }
    deadline = time.monotonic() + 120
    shown: dict = {}
    while shown != whole and time.monotonic() < deadline:  # the server reads piece by piece
        found = ingester.data_provider.read_scalars(
            context.RequestContext(), **asked, downsample=len(STEPS)
        )
        shown = {
            tag: [(point.step, repr(point.value)) for point in points]
            for tag, points in found.get("run", {}).items()
        }
        time.sleep(0.1)
    assert shown == whole
    assert shown["Memory/vram_reserved"] == [(step, "2048.0") for step in list(STEPS)[:-1]]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        plimsoll.errors.InputOutputError,
        match=r"cannot create the folder .*/file/logs: Not a directory",
    ):
        _record.EventFile(str(tmp_path / "file" / "logs"))
