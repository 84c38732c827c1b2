"""What keeps the memory of C++ programs: variables, containers, members, graphs, hooks, leaks."""

import json
import re
import subprocess

import pytest

STEPS = 24

# way: (holder, chain, edit). `…` stands for a line's number.
HOLDERS = {
    "vector": ("history", "history[*]", "Remove from history what is no longer needed."),
    "losses": (
        "losses",
        "losses[*] → MeanBackward0 → … → …Backward0 → saved",
        "Add x.detach(), or x.item<double>(), to losses instead of the tensor x: it keeps the "
        "graph of its forward.",
    ),
    "local": (
        "a local variable at +0x… in main (holders_program.cc:…)",
        "a local variable at +0x…[*] → MeanBackward0 → … → …Backward0 → saved in main "
        "(holders_program.cc:…)",
        "Add x.detach(), or x.item<double>(), to a local variable at +0x… in main "
        "(holders_program.cc:…) "
        "instead of the tensor x: it keeps the graph of its forward.",
    ),
    "member": ("trainer", "trainer[*]", "Remove from trainer what is no longer needed."),
    "map": ("cache", "cache[*]", "Remove from cache what is no longer needed."),
    "nested": ("by_step", "by_step[*]", "Remove from by_step what is no longer needed."),
    "deque": ("recent", "recent[*]", "Remove from recent what is no longer needed."),
    "static": (
        "keep_in_function()::kept",
        "keep_in_function()::kept[*]",
        "Remove from keep_in_function()::kept what is no longer needed.",
    ),
    "module": (
        "a local variable → NetImpl in main (holders_program.cc:…)",
        "a local variable → NetImpl[*] in main (holders_program.cc:…)",
        "Remove from a local variable → NetImpl in main (holders_program.cc:…) what is no longer "
        "needed.",
    ),
    "lost": (
        "a pointer that the program has lost",
        "a pointer that the program has lost",
        "Delete what new has made, or keep it in a std::unique_ptr.",
    ),
    "function": ("callback", "callback[*]", "Remove from callback what is no longer needed."),
    "hook": (
        "watched.hooks",
        "watched.hooks[*]",
        "Call remove_hook() with the number of the hook, which watched.hooks keeps.",
    ),
    # What has been in the memory of a container, and is not any more, is no reference.
    "used": ("history", "history[*]", "Remove from history what is no longer needed."),
}
NO_OTHER = "No other reference keeps this memory: ending this one frees "


def must_run(*words) -> str:
    ran = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def findings(libtorch_programs, plimsoll_command, tmp_path):
    def record(way: str, how: str = "tracer") -> list[dict]:
        path, program = tmp_path / "run.plim", libtorch_programs / "holders_program"
        if how == "tracer":
            must_run(program, way, path)
        else:
            must_run(plimsoll_command, "run", "--force", "-o", path, "--", program, way, "run")
        text = must_run(plimsoll_command, "report", "--json", path)
        # Lines and offsets depend on the compiler; of equal tensors, any may be the example.
        text = re.sub(r"(holders_program\.cc:)\d+", r"\1…", text)
        text = re.sub(r"(at \+0x)[0-9a-f]+", r"\1…", text)
        text = re.sub(r"(… → )\w+(Backward0 → saved)", r"\1…\2", text)
        return json.loads(text)["findings"]

    return record


def growth(findings: list[dict]) -> dict:
    (finding,) = [each for each in findings if each.get("holders")]
    return finding


@pytest.mark.parametrize("how", ["tracer", "run"])
@pytest.mark.parametrize("way", HOLDERS)
def test_the_holder_is_named(findings, way, how):
    path, chain, edit = HOLDERS[way]
    finding = growth(findings(way, how))
    (holder, *_) = finding["holders"]
    assert (holder["path"], holder["chain"]) == (path, chain)
    assert any(step["text"].startswith(edit) for step in finding["steps"])  # then what to store
    if how == "tracer":
        # A word of a stack frame that is no longer used may keep one or two.
        assert holder["count"] >= STEPS - 2


@pytest.mark.parametrize("way", ["vector", "losses", "local", "map", "deque", "member"])
def test_what_one_holder_keeps_alone_is_proved(findings, way):
    finding = growth(findings(way))
    assert NO_OTHER in " ".join(finding["evidence"])
    assert finding["holders"][0]["left_bytes"] == 0


def test_a_second_holder_is_named(findings):
    finding = growth(findings("two"))
    (holder, *_) = finding["holders"]
    assert {holder["path"], holder["other"]} == {"history", "recent"}
    assert holder["freed_bytes"] == 0


def test_a_clean_program_has_no_holder(findings):
    assert [each["id"] for each in findings("clean") if each["severity"] != "info"] == []


def test_threads_that_allocate_disturb_nothing(libtorch_programs, plimsoll_command, tmp_path):
    """The program compares the reference counts of its tensors with those before."""
    path = tmp_path / "run.plim"
    must_run(libtorch_programs / "holders_program", "threads", path, 10)
    rows = json.loads(must_run(plimsoll_command, "report", "--json", "--at", "end", path))
    held = {row["path"]: row for row in rows["tables"]["holders"]}
    assert held["history"]["count"] == 10
