"""The examples with their monitors on: what they print and write, from real runs made small.

Off, they print and write nothing of it. Goldens have their numbers masked: `pytest --bless`.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import plimsoll
from plimsoll import _record

torch.set_num_threads(1)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BURGERS = "--steps 6 --batch-size 4 --unroll 2 --width 8 --depth 2 --grid 64 --trajectories 4"
BURGERS += " --held-out 2 --frames 5 --lr 1e-2"
SPLATTING = "-i 12 --size 32 --gaussians 60 --densify_from_iter 2 --densify_until_iter 10"
SPLATTING += " --densification_interval 4 --report_every 6"
HEAT = "--grid 16 --steps 4"


def run(name: str, arguments: str, folder: Path, **environment: str) -> str:
    """What the example prints, run as a user does, in `folder`."""
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Burgers ------------------------------------------------------------------------------------------


def test_burgers_tells_of_the_first_batches_and_the_peak_of_each_epoch(golden, tmp_path):
    config = EXAMPLES / "burgers_unet.yaml"
    text = run("burgers_unet", f"{BURGERS} --config {config}", tmp_path)
    golden(text, "monitors/burgers_unet.txt")
    assert not list(tmp_path.iterdir())


def here(capsys, name: str, arguments: str) -> str:
    """What the example prints, run in this process."""
    load(name).main(arguments.split())
    return re.sub(r"[\d.]+ s\n", "", capsys.readouterr().out)


def test_burgers_without_a_configuration_tells_nothing_of_memory(capsys, monkeypatch):
    assert "MB" not in here(capsys, "burgers_unet", BURGERS)
    assert not _record.is_recording()
    monkeypatch.setenv("PLIMSOLL_MONITOR_ENABLED", "1")
    assert "Epoch end" in here(capsys, "burgers_unet", BURGERS)


def test_burgers_configuration_sets_defaults_and_flags_go_before_it(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "trainer_params: {grid: 32, steps: 7, use_amp: true, memory_monitor_batches: 1}"
    )
    args = load("burgers_unet").parse_arguments(["--config", str(path), "--steps", "9"])
    assert (args.grid, args.steps, args.use_amp) == (32, 9, True)
    path.write_text("trainer_params: {gird: 32}")
    with pytest.raises(SystemExit):
        load("burgers_unet").parse_arguments(["--config", str(path)])


def test_the_cache_of_simulations_keeps_the_last_ones_and_changes_no_number(tmp_path):
    burgers = load("burgers_unet")
    simulations = burgers.Simulations(tmp_path, 2)
    written = torch.randn(3, 5, 8)
    simulations.write(written)
    for which in (0, 1, 0, 2, 0, 1, 1):  # 0 1 . 2 . 1 . are loaded
        assert torch.equal(simulations[which], written[which])
    assert simulations.loads == 4
    assert simulations[1].untyped_storage().nbytes() == 5 * 8 * 4  # its own frames alone


@pytest.mark.parametrize("flags", ["--max-cached-sims 1", "--max-cached-sims 1 --workers 1"])
def test_burgers_learns_the_same_with_a_small_cache(flags, capsys):
    assert here(capsys, "burgers_unet", f"{BURGERS} {flags}") == here(
        capsys, "burgers_unet", BURGERS
    )


# Gaussian splatting -------------------------------------------------------------------------------


def test_splatting_writes_a_log_and_tensorboard_and_checkpoints(golden, tmp_path):
    flags = "--profile_tensors True --profile_interval 4 --profile_tensorboard -o out"
    text = run(
        "gaussian_splatting", f"{SPLATTING} {flags} --checkpoint_interval 6 -o out", tmp_path
    )
    golden(text, "monitors/gaussian_splatting.txt")
    (log,) = (tmp_path / "out/profiles").glob("tensor_profile_*.log")
    assert re.findall(r"=== Iteration (\d+)", log.read_text()) == ["4", "8", "12"]
    assert len(re.findall(r"\| loss [\d.]+ ===", log.read_text())) == 3
    assert len(list((tmp_path / "out/tensorboard").glob("events.out.tfevents.*"))) == 1
    assert (tmp_path / "out/checkpoint_12.pt").is_file()


def test_splatting_off_writes_nothing(tmp_path):
    run("gaussian_splatting", f"{SPLATTING} --profile_tensors False -o out", tmp_path)
    assert not list(tmp_path.iterdir())


# Heat ---------------------------------------------------------------------------------------------


def test_heat_inversion_finds_kappa_and_tells_of_loss_evaluations(golden, capsys, tmp_path):
    flags = "--enable-memory-monitoring --memory-monitor-batches 3"
    text = run("heat_inversion", f"{HEAT} {flags}", tmp_path)
    golden(text, "monitors/heat_inversion.txt")
    found = float(re.search(r"kappa ([\d.]+)", text)[1])
    assert found == pytest.approx(0.02, rel=0.05)
    evaluations = int(re.search(r"after (\d+) loss evaluations", text)[1])
    assert evaluations >= 4
    plain = here(capsys, "heat_inversion", HEAT)
    assert "MB" not in plain
    assert f"kappa {found:.5f}" in plain


def test_heat_equation_agrees_with_the_exact_solution():
    heat = load("heat_inversion")
    coarse, fine = (heat.check_plate(heat.parse_arguments(["--grid", n])) for n in ("12", "24"))
    assert fine < 1e-4
    assert coarse > 3 * fine  # second order


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    if hasattr(plimsoll, "stop_monitoring"):
        plimsoll.stop_monitoring()
