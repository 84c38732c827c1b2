"""The examples with monitors: what they print and write, in small real runs.

Without monitors, they print and write none of it. Golden files: `pytest --bless`.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import plimsoll
from plimsoll import _record

torch.set_num_threads(1)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))  # as for a script in that folder
BURGERS = "--steps 6 --batch-size 4 --unroll 2 --width 8 --depth 2 --grid 64 --trajectories 4"
BURGERS += " --held-out 2 --frames 5 --lr 1e-2"
SPLATTING = "-i 12 --size 32 --gaussians 60 --densify_from_iter 2 --densify_until_iter 10"
SPLATTING += " --densification_interval 4 --report_every 6"
HEAT = "--grid 16 --steps 4"


def run(name: str, arguments: str, folder: Path, **environment: str) -> str:
    """The output of the example, run as a user runs it, in `folder`."""
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


def test_burgers_reports_the_first_batches_and_the_peak_of_each_epoch(golden, tmp_path):
    config = EXAMPLES / "burgers_unet.yaml"
    text = run("burgers_unet", f"{BURGERS} --config {config}", tmp_path)
    golden(text, "monitors/burgers_unet.txt")
    assert not list(tmp_path.iterdir())


def here(capsys, name: str, arguments: str) -> str:
    """The output of the example, run in this process."""
    load(name).main(arguments.split())
    return re.sub(r"[\d.]+ s\n", "", capsys.readouterr().out)


def test_burgers_without_a_configuration_reports_no_memory(capsys, monkeypatch):
    assert "MB" not in here(capsys, "burgers_unet", BURGERS)
    assert not _record.is_recording()
    monkeypatch.setenv("PLIMSOLL_MONITOR_ENABLED", "1")
    assert "Epoch end" in here(capsys, "burgers_unet", BURGERS)


def test_burgers_configuration_sets_defaults_and_flags_go_before_it(tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(
        "trainer_params: {grid: 32, steps: 7, use_amp: true, gradient_accumulation_steps: 2,"
        " memory_monitor_batches: 1}\ndata: {max_cached_sims: 5, pin_memory: true}"
    )
    parse = load("burgers_unet").parse_arguments
    args = parse(["--config", str(path), "--steps", "9"])
    assert (args.grid, args.steps, args.use_amp, args.max_cached_sims) == (32, 9, True, 5)
    assert (args.gradient_accumulation_steps, args.pin_memory) == (2, True)
    args = parse(["--config", str(path), "data.max_cached_sims=3", "+trainer_params.lr=1e-3"])
    assert (args.max_cached_sims, args.lr) == (3, 1e-3)
    for override, says in (
        ("data.max_cachd_sims=3", "no setting data.max_cachd_sims; +data.max_cachd_sims=3 adds it"),
        ("+data.max_cachd_sims=3", "data.max_cachd_sims: no such setting"),
        ("steps", "steps: expected name.name=value"),
    ):
        with pytest.raises(SystemExit):
            parse(["--config", str(path), override])
        assert says in capsys.readouterr().err
    path.write_text("trainer_params: {gird: 32}")
    with pytest.raises(SystemExit):
        parse(["--config", str(path)])
    assert "trainer_params.gird: no such setting" in capsys.readouterr().err


def test_accumulated_batches_update_the_model_as_one_large_batch(monkeypatch):
    burgers = load("burgers_unet")
    monkeypatch.setattr(burgers.nn.utils, "clip_grad_norm_", lambda *_: None)
    flags = "--grid 32 --width 8 --depth 2 --frames 5 --trajectories 4 --unroll 2 --batch-size 4"
    frames = torch.randn(8, 3, 32)
    weights = []
    for batches in (frames.split(4), [frames]):
        torch.manual_seed(0)
        accumulate = f" --accumulate {len(batches)}"
        trainer = burgers.Trainer(burgers.parse_arguments((flags + accumulate).split()))
        trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.1)
        trainer.schedule = torch.optim.lr_scheduler.ConstantLR(trainer.optimizer, 1)
        trainer.loader = batches
        trainer.train_epoch()
        assert trainer.step == 1
        weights.append(torch.cat([p.flatten() for p in trainer.model.parameters()]))
    assert torch.allclose(*weights, atol=1e-6)


def test_the_cache_of_simulations_keeps_the_last_ones_and_changes_no_number(tmp_path):
    burgers = load("burgers_unet")
    simulations = burgers.Simulations(tmp_path, 2)
    written = torch.randn(3, 5, 8)
    simulations.write(written)
    for which in (0, 1, 0, 2, 0, 1, 1):  # loads 0, 1, 2 and 1 again
        assert torch.equal(simulations[which], written[which])
    assert simulations.loads == 4
    assert simulations[1].untyped_storage().nbytes() == 5 * 8 * 4  # only its own frames


@pytest.mark.parametrize("flags", ["--max-cached-sims 1", "--max-cached-sims 1 --workers 1"])
def test_burgers_learns_the_same_with_a_small_cache(flags, capsys):
    assert here(capsys, "burgers_unet", f"{BURGERS} {flags}") == here(
        capsys, "burgers_unet", BURGERS
    )


# Configurations -----------------------------------------------------------------------------------


def test_a_configuration_is_composed_as_hydra_composes_it():
    configuration = importlib.import_module("configuration")
    conf = EXAMPLES / "conf"
    plain = configuration.compose(conf, "burgers_experiment")
    assert plain["trainer_params"]["enable_memory_monitoring"] is False
    assert not plimsoll.load_options(plain).enabled
    chosen = configuration.compose(
        conf,
        "burgers_experiment",
        ["data.max_cached_sims=3", "trainer=synthetic_with_memory", "trainer_params.lr=0.1"],
    )
    assert chosen["data"] == plain["data"] | {"max_cached_sims": 3}
    assert chosen["trainer_params"]["lr"] == 0.1
    options = plimsoll.load_options(chosen)
    assert (options.enabled, options.verbose_batches) == (True, 5)
    inline = ["trainer_params.enable_memory_monitoring=true"]
    assert plimsoll.load_options(configuration.compose(conf, "burgers_experiment", inline)).enabled


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["burgers"], "burgers.yaml"),
        (["burgers_experiment", "trainer=physicl"], "choose from: physical, physical_with_memory"),
        (["burgers_experiment", "data.gird=3"], "no setting data.gird; +data.gird=3 adds it"),
        (["burgers_experiment", "+experiment.x=3"], "expected name.name=value"),
        (["burgers_experiment", "experiment=unet"], "experiment: unet: no such example"),
    ],
)
def test_what_cannot_be_composed_is_an_error_that_names_it(arguments, says, capsys):
    with pytest.raises(SystemExit):
        load("run").main(["--config-name", *arguments])
    assert says in capsys.readouterr().err


TINY_BURGERS = "trainer_params.steps=2 trainer_params.batch_size=2 trainer_params.unroll=2"
TINY_BURGERS += " model.width=8 model.depth=2 data.grid=32 data.frames=4 data.trajectories=2"
TINY_HEAT = "data.grid=12 data.steps=2 trainer_params.iterations=2"


@pytest.mark.parametrize(
    "how", ["trainer=synthetic_with_memory", "trainer_params.enable_memory_monitoring=true"]
)
def test_the_burgers_experiment_runs_with_monitoring(how, tmp_path):
    text = run("run", f"--config-name=burgers_experiment {how} {TINY_BURGERS}", tmp_path)
    _, banner, _, first, *_, last, _ = text.splitlines()
    assert banner == "Memory monitoring enabled (verbose for first 5 batches)"
    number = r"[\d.]+ MB"
    assert re.fullmatch(rf"  Batch 0: CPU tensors {number}, CPU {number}, loss=0\.\d{{6}}", first)
    assert re.fullmatch(rf"  Epoch end: CPU tensors {number} allocated, peak {number}", last)


def test_the_burgers_experiment_is_silent_by_default(capsys):
    arguments = f"--config-name=burgers_experiment {TINY_BURGERS}"
    assert "MB" not in here(capsys, "run", arguments)


def test_the_heat_experiment_runs_with_monitoring(tmp_path):
    arguments = f"--config-name=heat_physical_experiment trainer=physical_with_memory {TINY_HEAT}"
    text = run("run", arguments, tmp_path)
    lines = [re.sub(r"[\d.]+ MB|(?<=loss=)0\.\d{6}", "#", line) for line in text.splitlines()]
    assert lines[1:4] == [
        "After loading ground truth data: CPU: # | CPU tensors: #",
        "  Loss evaluation 0: CPU: # | CPU tensors: #",
        "    Iteration 1: loss=#",
    ]
    assert lines[-4:-1] == [
        "not converged after 2 iterations",
        "After optimization: CPU: # | CPU tensors: #",
        "  Peak CPU tensors during optimization: #",
    ]


# Gaussian splatting -------------------------------------------------------------------------------


def test_splatting_has_one_switch_for_log_and_tensorboard(golden, tmp_path):
    flags = "--profile_tensors True --profile_interval 4 --checkpoint_interval 6"
    text = run("gaussian_splatting", f"{SPLATTING} {flags}", tmp_path)
    golden(text, "monitors/gaussian_splatting.txt")
    out = tmp_path / "output/ship"
    (log,) = (out / "profiles").glob("tensor_profile_*.log")
    assert re.findall(r"=== Iteration (\d+)", log.read_text()) == ["4", "8", "12"]
    assert len(re.findall(r"\| loss [\d.]+ ===", log.read_text())) == 3
    accumulator = EventAccumulator(str(out / "tensorboard"))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    assert {
        "TensorProfiling/Tensor_Category/parameters_MB",
        "TensorProfiling/Tensor_Count/total",
    } < {*tags}
    assert (out / "checkpoint_12.pt").is_file()


def test_splatting_keeps_the_defaults_of_trainers():
    args = load("gaussian_splatting").parse_arguments([])
    assert (args.profile_tensors, args.checkpoint_interval, args.eval) == (False, 2000, False)
    assert args.output_dir == Path("output/ship")


def test_splatting_resumes_from_a_checkpoint_with_a_picture_and_held_out_metrics(tmp_path):
    pixels = bytes(
        (x * 8 if c == 0 else y * 8) for y in range(32) for x in range(32) for c in "rgb"
    )
    pixels = bytes(min(255, value) for value in pixels)
    (tmp_path / "sea.ppm").write_bytes(b"P6\n32 32\n255\n" + pixels)
    flags = "-s sea.ppm -r density --high_poly True --checkpoint_interval 12"
    run("gaussian_splatting", f"{SPLATTING} {flags}", tmp_path)
    assert (tmp_path / "output/sea/checkpoint_12.pt").is_file()
    flags = "-s sea.ppm -c output/sea --eval True -o again"
    text = run("gaussian_splatting", f"{SPLATTING.replace('-i 12', '-i 15')} {flags}", tmp_path)
    assert re.findall(r"iteration (\d+)  loss", text) == ["15"]
    results = json.loads((tmp_path / "again/results.json").read_text())
    assert 32 * 32 / 16 < results["pixels"] < 32 * 32 / 4
    assert f"held-out PSNR {results['psnr']:.2f} dB" in text
    assert results["l1"] > 0


def test_splatting_off_writes_nothing(tmp_path):
    run("gaussian_splatting", f"{SPLATTING} --profile_tensors False", tmp_path)
    assert not list(tmp_path.iterdir())


# Heat ---------------------------------------------------------------------------------------------


def test_heat_inversion_finds_kappa_and_shows_its_first_loss_evaluations(golden, capsys, tmp_path):
    config = EXAMPLES / "heat_inversion.yaml"
    text = run("heat_inversion", f"{HEAT} --config {config}", tmp_path)
    golden(text, "monitors/heat_inversion.txt")
    found = float(re.search(r"kappa ([\d.]+)", text)[1])
    assert found == pytest.approx(0.02, rel=0.05)
    evaluations = int(re.search(r"after (\d+) loss evaluations", text)[1])
    assert evaluations >= 4
    plain = here(capsys, "heat_inversion", HEAT)
    assert "MB" not in plain
    assert f"kappa {found:.5f}" in plain
    flags = "--enable-memory-monitoring --memory-monitor-batches 1"
    assert here(capsys, "heat_inversion", f"{HEAT} {flags}").count("Loss evaluation") == 1


def test_heat_inversion_names_the_settings_that_it_does_not_use(capsys, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("trainer_params: {batch_size: 16}\ndata: {pin_memory: true}")
    load("heat_inversion").parse_arguments(["--config", str(path)])
    said = capsys.readouterr().err
    assert "trainer_params.batch_size has no effect here" in said
    assert "data.pin_memory has no effect here" in said


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
