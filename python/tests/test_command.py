"""The command line as a trace stores it."""

import subprocess
import sys

import pytest

from plimsoll._process.command_text import command_text

SECRET = "s3cr3t-value-0123456789"


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", SECRET],
        [f"--api_key={SECRET}"],
        ["--wandb-token", SECRET, "--lr", "0.1"],
        [f"wandb.api_key={SECRET}"],
        [f"--password={SECRET}=="],
        [f"https://user:{SECRET}@host/data"],
        [f"--data=s3://{SECRET}@bucket"],
        [f"hf_{SECRET}"],
        [f"--hub=hf_{SECRET}"],
        [f"glpat-{SECRET}"],
        [f"--maps=AIza{SECRET}"],
        ["--pwd", SECRET],
        [f"--db-pass={SECRET}"],
        ["--header", f"Authorization: Basic {SECRET}"],
        [f"--header=X-Api-Key: {SECRET}"],
    ],
)
def test_secrets_are_hidden(words):
    assert SECRET not in command_text(["train.py", *words, "--epochs", "3"])
    assert command_text(["train.py", *words, "--epochs", "3"]).endswith("--epochs 3")


def test_harmless_arguments_are_unchanged():
    words = ["train.py", "--lr", "0.1", "model=unet", "--tokenizer", "bert", "--key-dim=64", "a b"]
    words += ["--passes", "3", "--compass=n"]
    assert command_text(words) == " ".join(words)


def test_a_trace_contains_no_secret(tmp_path):
    program = "import plimsoll\nwith plimsoll.record('run.plim', adapter='none'): pass"
    words = [sys.executable, "-c", program, "--token", SECRET]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert SECRET.encode() not in (tmp_path / "run.plim").read_bytes()
