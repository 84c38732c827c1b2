"""The examples really train: they learn, at any size, and two runs give the same result.

They run in this process, with sizes so small that each takes about a second.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

torch.set_num_threads(1)  # little work, on a possibly busy machine

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))  # as for a script in that folder


def load(name: str) -> ModuleType:
    """The example as a module; it must not run on import."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(text: str, label: str) -> list[float]:
    """The numbers printed after this label, in order."""
    return [float(n) for n in re.findall(rf"{label} ([-+.\de]+)", text)]


BURGERS = "--steps 16 --batch-size 4 --unroll 2 --width 8 --depth 2 --grid 64 --trajectories 4"
BURGERS += " --held-out 2 --frames 9 --lr 1e-2"
LANGUAGE = "--steps 90 --lr 1e-2 --batch-size 4 --context 32 --width 32 --layers 2 --heads 2"
LANGUAGE += " --report-every 30 --sample 20"
SPLATTING = "-i 60 --size 32 --gaussians 60 --densify_from_iter 10 --densify_until_iter 50"
SPLATTING += " --densification_interval 10 --densify_grad_threshold 5e-3 --report_every 20"


@pytest.mark.parametrize(
    ("name", "arguments", "label"),
    [
        ("burgers_unet", BURGERS, "train loss"),
        ("burgers_unet", BURGERS + " --accumulate 2", "train loss"),
        ("burgers_unet", BURGERS + " --amp", "train loss"),
        ("language_model", LANGUAGE, "val loss"),
        ("language_model", LANGUAGE + " --tied --accumulate 2", "val loss"),
        ("language_model", LANGUAGE + " --checkpoint --amp --dropout 0.1", "val loss"),
        ("gaussian_splatting", SPLATTING, "loss"),
        ("gaussian_splatting", SPLATTING + " --tiles_at_once 1", "loss"),
    ],
)
def test_the_loss_falls(name, arguments, label, capsys):
    load(name).main(arguments.split())
    losses = numbers(capsys.readouterr().out, label)
    assert len(losses) >= 2
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("burgers_unet", BURGERS),
        ("language_model", LANGUAGE + " --dropout 0.1"),
        ("gaussian_splatting", SPLATTING),
    ],
)
def test_the_same_seed_trains_the_same(name, arguments, capsys):
    runs = []
    for _ in range(2):
        load(name).main(arguments.split())
        runs.append(re.sub(r"[\d.]+ s\n", "", capsys.readouterr().out))
    assert runs[0] == runs[1]


def test_the_burgers_solver_agrees_with_the_exact_solution_and_converges_at_fourth_order():
    error, order = load("burgers_unet").check_solver()
    assert error < 1e-8
    assert order > 3.8


def test_the_burgers_solver_conserves_the_mean_and_loses_energy():
    burgers = load("burgers_unet")
    start = burgers.random_fields(3, 64, torch.Generator().manual_seed(1))
    end = burgers.BurgersSolver(64, 0.1, 0.005).advance(start, 100)
    assert torch.allclose(start.mean(-1), end.mean(-1), atol=1e-12)
    assert (end.square().mean(-1) < start.square().mean(-1)).all()


def test_checkpointing_and_tiling_change_nothing_but_memory(capsys):
    for name, arguments, flag in (
        ("language_model", LANGUAGE, " --checkpoint"),
        ("gaussian_splatting", SPLATTING.replace("-i 60", "-i 5"), " --tiles_at_once 1"),
    ):
        losses = []
        for extra in ("", flag):
            load(name).main((arguments + extra).split())
            losses.append(numbers(capsys.readouterr().out, "loss"))
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_densification_replaces_parameters_and_keeps_their_adam_state(capsys, tmp_path):
    splatting = load("gaussian_splatting")
    splatting.main([*SPLATTING.split(), "--checkpoint_interval", "30", "-o", str(tmp_path)])
    counts = [int(n) for n in re.findall(r"(\d+) Gaussians", capsys.readouterr().out)]
    assert counts[-1] > 60
    state = torch.load(tmp_path / "checkpoint_60.pt")
    for group in state["optimizer"]["param_groups"]:
        parameter = state["gaussians"][group["name"]]
        assert len(parameter) == counts[-1]
        assert state["optimizer"]["state"][group["params"][0]]["exp_avg"].shape == parameter.shape


def test_the_text_is_what_its_program_writes():
    written = subprocess.run(
        [sys.executable, EXAMPLES / "data/write_log.py"], capture_output=True, check=True
    )
    assert written.stdout == (EXAMPLES / "data/ships_log.txt").read_bytes()


HIDING = """
import runpy, sys
module, path = sys.argv[1], sys.argv[2]
sys.modules[module] = None  # importing it raises ModuleNotFoundError
sys.argv = sys.argv[2:]
sys.path.insert(0, path.rpartition("/")[0])
runpy.run_path(path, run_name="__main__")
"""
OPTIONAL = {"phi": "phiflow", "yaml": "pyyaml"}


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("phi", "heat_inversion.py"),
        ("phi", "run.py --config-name=heat_physical_experiment"),
        ("yaml", "run.py --config-name=heat_physical_experiment"),
        ("yaml", "run.py --config-name=burgers_experiment"),
        ("yaml", f"heat_inversion.py --config {EXAMPLES}/heat_inversion.yaml"),
        ("yaml", f"burgers_unet.py --config {EXAMPLES}/burgers_unet.yaml"),
        ("yaml", "burgers_unet.py +data.a=1"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(module, program):
    name, *arguments = program.split()
    ran = subprocess.run(
        [sys.executable, "-c", HIDING, module, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"{name}: {module} is not installed: pip install {OPTIONAL[module]}\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", said)


def test_the_programs_import_no_other_packages_than_those():
    imported = set()
    for path in EXAMPLES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    neighbors = {path.stem for path in EXAMPLES.rglob("*.py")}
    packages = imported - sys.stdlib_module_names - neighbors
    assert packages == {"torch", "plimsoll", *OPTIONAL}


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("burgers_unet", "--grid 60 --depth 3", "--grid 60 cannot be halved"),
        ("language_model", "--width 30 --heads 4", "--width 30 is no multiple of --heads 4"),
        ("gaussian_splatting", "--size 40", "--size 40 is no multiple of 16"),
    ],
)
def test_impossible_flags_are_reported(name, arguments, says, capsys):
    with pytest.raises(SystemExit):
        load(name).main(arguments.split())
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gaussian_splatting", "-s none.ppm --profile_tensors True"),
        ("gaussian_splatting", "-c none.pt --profile_tensors True"),
        ("language_model", "--text none.txt"),
    ],
)
def test_a_wrong_path_is_one_line_and_leaves_no_file(
    name, arguments, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        load(name).main(arguments.split())
    assert caught.value.code == 2
    path = arguments.split()[1]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f"error: {path}: there is no such file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("gaussian_splatting -s folder", "folder is a folder, not a picture"),
        ("gaussian_splatting -s words.txt", "words.txt is not a binary PPM picture"),
        ("gaussian_splatting -c folder", "folder holds no checkpoint_*.pt"),
        ("gaussian_splatting -c words.txt", "words.txt is no checkpoint: torch.load cannot"),
        ("gaussian_splatting -c number.pt", "number.pt is no checkpoint of gaussian_splatting"),
        ("language_model --text bytes.txt", "bytes.txt is not UTF-8"),
        ("language_model --text words.txt", "words.txt has 5 letters"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(words, says, capsys, tmp_path, monkeypatch):
    name, *arguments = words.split()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "words.txt").write_text("hello")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xfd" * 1000)
    torch.save(7, tmp_path / "number.pt")
    with pytest.raises(SystemExit) as caught:
        load(name).main(arguments)
    assert caught.value.code == 2
    assert f"error: {says}" in capsys.readouterr().err.splitlines()[-1]
    assert len(list(tmp_path.iterdir())) == 4
