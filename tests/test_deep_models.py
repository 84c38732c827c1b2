"""Recordings and snapshots of deep models from packages, made on a GPU: equal layers are summed,
and the advice is one that the package supports."""

import functools
import json
import re
import subprocess
from pathlib import Path

import pytest


@functools.cache
def report_of(command: str, path: Path) -> dict:
    done = subprocess.run(
        [command, "report", "--json", "--device", "0", path],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def activations(report: dict) -> dict:
    (finding,) = (each for each in report["findings"] if each["id"] == "activations_dominate")
    return finding


CHECKPOINTED = {
    "recordings/llama_1b_exact.plim": (
        r"LlamaForCausalLM\.model\.layers\.0…21 hold .* of it: 22 . 681\.\d MiB",
        "model.gradient_checkpointing_enable()",
    ),
    "recordings/llama_1b_oom.plim": (
        r"LlamaForCausalLM\.model\.layers\.0…21 hold .* of it: 22 . 2\.7 GiB",
        "model.gradient_checkpointing_enable()",
    ),
    "recordings/h01_gpt2.plim": (
        r"GPT2LMHeadModel\.transformer\.h\.0…5 hold .* of it: 6 . ",
        "model.gradient_checkpointing_enable()",
    ),
    "snapshots/llama_1b_out_of_memory.pickle": (
        r"22 calls of forward at transformers/models/llama/modeling_llama\.py:306 to 323 hold .*: "
        r"22 . 2\.7 GiB",
        "model.gradient_checkpointing_enable()",
    ),
    "snapshots/gpt2_bf16.forward.pickle": (
        r"4 calls of forward at transformers/models/gpt2/modeling_gpt2\.py:\d+ to 307 hold ",
        "model.gradient_checkpointing_enable()",
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_the_advice_names_equal_layers_and_what_their_package_has(samples, plimsoll_command, name):
    finding = activations(report_of(plimsoll_command, samples / "gpu" / name))
    layers, call = CHECKPOINTED[name]
    assert re.search(layers, " ".join(finding["evidence"])), finding["evidence"]
    assert call in finding["next_step"]
    assert finding["steps"][0]["saving_bytes"] > 0
    assert finding["steps"][0]["is_upper_bound"]
    assert all("bfloat16" not in step["text"] for step in finding["steps"])
    assert "calls no layer" not in " ".join(finding["evidence"])


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_the_line_of_the_program_and_that_of_the_package_are_named(samples, plimsoll_command, name):
    finding = activations(report_of(plimsoll_command, samples / "gpu" / name))
    most = next(each for each in finding["evidence"] if each.startswith("Most of it is created"))
    assert re.search(r"gpu/.*\.py:\d+ .*, of which (transformers|timm)/.*\.py:\d+ ", most), most


def test_the_head_and_the_embedding_stay_visible_next_to_equal_layers(samples, plimsoll_command):
    done = subprocess.run(
        [plimsoll_command, "report", "--full", samples / "gpu/recordings/llama_1b_exact.plim"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "0…21 (22 \u00d7 933.1 MiB)" in done.stdout
    assert re.search(r"  embed_tokens\n", done.stdout)
    assert re.search(r"  lm_head\n", done.stdout)


def test_layers_are_in_the_order_of_their_numbers(samples, plimsoll_command):
    report = report_of(plimsoll_command, samples / "gpu/recordings/llama_1b_exact.plim")
    prefix = "LlamaForCausalLM.model.layers."
    paths = [row["layer"].removeprefix(prefix) for row in report["tables"]["layers"]]
    assert [path for path in paths if path.isdigit()] == [str(number) for number in range(22)]
