"""plimsoll completion and the manual page, as shells and man process them."""

import re
import shutil
import subprocess

import pytest

from .running import complains

SHELLS = ("bash", "zsh", "fish")


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture(scope="module")
def complete(plimsoll):
    """Complete the last of some words, as bash does."""
    script = plimsoll("completion", "bash").out

    def completions(*words: str, cwd=None) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        asked = (
            f"{script}\nCOMP_WORDS=(plimsoll {quoted})\nCOMP_CWORD={len(words)}\n_plimsoll\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        ran = subprocess.run(
            ["bash", "--norc", "-u", "-c", asked],
            capture_output=True,
            text=True,
            check=True,
            cwd=cwd,
        )
        assert ran.stderr == ""
        return ran.stdout.split()

    return completions


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_every_option(plimsoll, shell):
    script = plimsoll("completion", shell).out
    for line in plimsoll("--help").out.splitlines():
        if match := re.match(r"  ([a-z]+) ", line):
            command = match[1]
            assert re.search(rf"\b{command}\b", script)
            for option in re.findall(
                r"^  (?:-\w, )?--([a-z-]+)", plimsoll("help", command).out, re.M
            ):
                assert option in script, (command, option)


def test_a_shell_without_completion_is_a_usage_error(plimsoll):
    complains(plimsoll("completion", "basch"), 2, "basch is not one of", "did you mean bash?")
    complains(plimsoll("completion"), 2, "needs a SHELL")


def test_bash_completes_commands(complete):
    assert complete("re") == ["report"]
    assert {"run", "report", "--version"} <= set(complete(""))


def test_bash_completes_options_and_their_values(complete):
    assert complete("report", "--fa") == ["--fail-on"]
    assert complete("report", "x.plim", "--by", "ca") == ["category"]
    assert complete("report", "--by", "line,cat") == ["line,category"]
    assert complete("report", "--top", "") == []
    assert complete("completion", "z") == ["zsh"]
    assert complete("help", "rep") == ["report"]


def test_bash_completes_files(complete, tmp_path):
    (tmp_path / "late.plim").touch()
    assert complete("report", "la", cwd=tmp_path) == ["latest", "late.plim"]
    assert complete("export", "-o", "la", cwd=tmp_path) == ["late.plim"]
    assert complete("completion", "la", cwd=tmp_path) == []


@pytest.mark.parametrize(
    ("shell", "check"),
    [
        pytest.param(shell, check, marks=needs(shell))
        for shell, check in (("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute"))
    ],
)
def test_the_shell_itself_accepts_its_script(plimsoll, shell, check, tmp_path):
    path = tmp_path / "script"
    path.write_text(plimsoll("completion", shell).out)
    subprocess.run([shell, check, path], check=True)


def test_the_manual_page_has_every_command_and_the_exit_status(plimsoll):
    page = plimsoll("help", "--man").out
    for line in plimsoll("--help").out.splitlines():
        if match := re.match(r"  ([a-z]+) ", line):
            assert f".SS plimsoll {match[1]}" in page
    assert re.findall(r"^\.SH (.*)", page, re.M) == ["NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS"]
    assert not re.search(r"^'", page, re.M)


@needs("groff")
def test_groff_prints_the_manual_page_without_a_warning(plimsoll):
    page = plimsoll("help", "--man").out
    ran = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c"],
        input=page,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    text = re.sub(r".\x08", "", ran.stdout)
    assert "--fail-on WHAT" in text
