"""Fleets on a Ray cluster of three nodes and in an object store, both on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from generated_ranks import paths, runner

from plimsoll import fleet
from plimsoll.fleet import runners

pytestmark = pytest.mark.slow

PROGRAM = """
import torch
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.ones(1024, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A recording under the names of 24 ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "plimsoll", "run", "-o", "run.plim", "train.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    files = [str(folder / f"rank{rank}.plim") for rank in range(24)]
    for file in files:
        shutil.copy(folder / "run.plim", file)
    return files


def comparable(answer):
    return dict(vars(answer), run={**answer.run, "added_ns": 0})


@pytest.fixture
def cluster(monkeypatch):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    small = {"num_cpus": 1, "object_store_memory": 100 << 20}
    made = Cluster(initialize_head=True, head_node_args=small)
    nodes = [made.add_node(**small) for _ in range(2)]
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def test_a_node_that_dies_changes_no_answer(cluster, recordings, tmp_path):
    made, nodes = cluster
    killer = []

    def progress(done, total):
        if done == 4:  # in the middle
            killer.append(threading.Thread(target=made.remove_node, args=(nodes[0],)))
            killer[0].start()

    on_ray = runners.on_ray(made.address)
    added = fleet.add(tmp_path / "ray", recordings, run="a", runner=on_ray, progress=progress)
    killer[0].join()
    assert added.problems == []
    assert added.ranks == list(range(24))
    fleet.add(tmp_path / "serial", recordings, run="a", runner=runners.serial)
    assert comparable(fleet.open(tmp_path / "ray").show()) == comparable(
        fleet.open(tmp_path / "serial").show()
    )


@pytest.fixture
def bucket(monkeypatch):
    """An object store on this machine."""
    server_module = pytest.importorskip("moto.server")
    import boto3

    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="runs")
    yield "s3://runs"
    server.stop()


def test_an_object_store_gives_the_same_answer(bucket, recordings, tmp_path):
    import pyarrow.fs

    files, root = pyarrow.fs.FileSystem.from_uri(bucket)
    for path in recordings[:3]:
        with files.open_output_stream(f"{root}/{os.path.basename(path)}") as stream:
            stream.write(Path(path).read_bytes())
    remote = [f"{bucket}/{os.path.basename(path)}" for path in recordings[:3]]
    added = fleet.add(f"{bucket}/fleet", remote, run="a")
    assert added.problems == []
    fleet.add(tmp_path / "local", recordings[:3], run="a")

    def rows(folder):
        answer = comparable(fleet.open(folder).show())
        for row in answer["ranks"]:
            del row["path"]
        return answer

    expected = rows(tmp_path / "local")
    assert rows(f"{bucket}/fleet") == expected
    fleet.finish(f"{bucket}/fleet")
    assert rows(f"{bucket}/fleet") == expected
    absent = fleet.add(f"{bucket}/fleet", [f"{bucket}/none.plim"], run="a")
    assert len(absent.problems) == 1
    assert f"{bucket}/none.plim" in absent.problems[0]


def test_single_adds_to_an_object_store(bucket, tmp_path):
    for path in paths(6):
        fleet.add(f"{bucket}/single", [path], run="a", runner=runner())
    fleet.add(tmp_path, paths(6), run="a", runner=runner())
    expected = comparable(fleet.open(tmp_path).show())
    assert comparable(fleet.open(f"{bucket}/single").show()) == expected
    fleet.finish(f"{bucket}/single")
    assert comparable(fleet.open(f"{bucket}/single").show()) == expected


FSDP = """
import torch, plimsoll
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

distributed.init_process_group("gloo")
torch.set_num_threads(1)
rank = distributed.get_rank()
def block():
    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))

model = nn.Sequential(*[block() for _ in range(3)])
for block in model:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
rows = 4096 if rank == 5 else 512
for _ in range(4):
    model(torch.randn(rows, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
distributed.destroy_process_group()
"""


def test_the_rank_with_a_larger_batch_among_eight_of_fsdp(tmp_path):
    (tmp_path / "train.py").write_text(FSDP)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=8"]
    words = ["--no-python", "plimsoll", "run", "--fleet", "runs", "-o", "run.plim", "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, *words], cwd=tmp_path, env=environment, check=True, timeout=500)
    answer = fleet.open(tmp_path / "runs").show()
    assert answer.run["ranks"] == 8
    assert [row["rank"] for row in answer.ranks if row["differs"]] == [5]
    assert answer.verdicts[0]["title"].startswith("Rank 5 peaks at ")
    assert "train.py" in answer.verdicts[0]["evidence"][0]
    assert answer.differences[0]["difference_bytes"] > 0
