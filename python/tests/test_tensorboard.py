"""Plimsoll's event files, as TensorBoard and its data server read them."""

import io
import math
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from tensorboard import context
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.data import server_ingester
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.util import grpc_util
from torch.utils.tensorboard import SummaryWriter

import plimsoll
from plimsoll import _record

STEPS = range(0, 2000, 100)


def synthetic_sample(step: int) -> _record.MemorySample:
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
        sample = synthetic_sample(step)
        assert file.write(sample.time_ns, step, _record.scalars_of(sample)) is None
    return Path(file.path)  # not closed, as in a killed program


def write_with_torch(folder: Path) -> None:
    with SummaryWriter(folder) as writer:
        for step in STEPS:
            sample = synthetic_sample(step)
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
    while shown != whole and time.monotonic() < deadline:  # the server loads the file in pieces
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


MONITORED = """
import sys, torch, plimsoll

torch.set_num_threads(1)
net = torch.nn.Linear(256, 256)
options = {"interval": 1, "text_log": False, "tensorboard": sys.argv[1], "image_every": 4}
monitor = plimsoll.TrainingMonitor(**options)
for iteration in range(10):
    net(torch.ones(64, 256)).sum().backward()
    monitor.step()
"""  # not closed: the image of the end is written anyway


@pytest.fixture(scope="module")
def monitored(tmp_path_factory) -> EventAccumulator:
    folder = tmp_path_factory.mktemp("monitored")
    subprocess.run([sys.executable, "-c", MONITORED, str(folder)], check=True, capture_output=True)
    accumulator = EventAccumulator(str(folder), size_guidance={"images": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_the_timeline_is_an_image_in_between_and_at_the_end(monitored):
    assert monitored.Tags()["images"] == ["Memory/timeline"]
    images = monitored.Images("Memory/timeline")
    assert [image.step for image in images] == [4, 8, 9]
    for image in images:
        picture = Image.open(io.BytesIO(image.encoded_image_string))  # TensorBoard needs Pillow
        assert (image.width, image.height) == picture.size == (1040, 600)
        colors = {color for _, color in picture.convert("RGB").getcolors(picture.width * 600)}
        assert {(0x2E, 0x53, 0x95), (0x10, 0x7A, 0x6C)} <= colors  # parameters and gradients


def test_the_layout_of_custom_scalars_is_written_once_and_matches_tags(monitored):
    (event,) = monitored.Tensors("custom_scalars__config__")
    metadata = monitored.SummaryMetadata("custom_scalars__config__")
    assert metadata.plugin_data.plugin_name == "custom_scalars"
    layout = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0])
    assert [category.title for category in layout.category] == [
        "Memory",
        "Tensors",
        "Device and machine",
    ]
    tags = monitored.Tags()["scalars"]

    def shown(chart: layout_pb2.Chart) -> list[str]:
        (pattern,) = chart.multiline.tag
        return sorted(tag for tag in tags if re.match(pattern, tag))

    categories, sizes = layout.category[0].chart
    names = ("activations", "buffers", "gradients", "other", "parameters")
    assert shown(categories) == [f"Memory/Tensor_Category/{name}_MB" for name in names]
    assert shown(sizes) == ["Memory/cpu_allocated", "Memory/cpu_peak"]
    assert all(shown(chart) for category in layout.category for chart in category.chart)


VARIED = """
import sys, torch, plimsoll

torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 99))
net[0].weight.requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
options = {"interval": 1, "tensorboard": sys.argv[1], "large_tensor_mb": 0.2}
inputs = []
with plimsoll.TrainingMonitor(text_log=False, **options) as monitor:
    for iteration in range(1, 8):
        inputs.append(torch.ones(64 * iteration, 256))
        loss = net(inputs[-1]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        net.register_buffer(f"b{iteration}", torch.zeros(iteration, 9))
        net.register_buffer(f"n{iteration}", torch.arange(iteration))
        net.register_parameter(f"p{iteration}", torch.nn.Parameter(torch.zeros(iteration, 99)))
        monitor.step(loss=loss.item())
"""  # no two quantities are equal in it


def test_no_figure_has_two_tags(tmp_path):
    """Not in another unit either: a size in bytes, in MB and in GB is one figure."""
    subprocess.run([sys.executable, "-c", VARIED, str(tmp_path)], check=True, capture_output=True)
    accumulator = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    accumulator.Reload()
    tags: dict[tuple, list[str]] = {}
    for tag in accumulator.Tags()["scalars"]:
        values = [event.value for event in accumulator.Scalars(tag)]
        largest = max(values)
        unit = 1024.0 ** math.floor(math.log(largest, 1024)) if largest > 0 else 1
        tags.setdefault(tuple(round(value / unit, 4) for value in values), []).append(tag)
    assert [each for each in tags.values() if len(each) > 1] == []
