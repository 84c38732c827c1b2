"""The help, and the documents that are generated from it."""

import json
from pathlib import Path

import pytest

from .running import complains

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("run", "report", "export", "plot", "top", "nsys", "schema", "help")


def test_help_names_every_command(plimsoll):
    outcome = plimsoll("--help")
    assert outcome.status == 0
    assert all(f"\n  {command} " in outcome.out for command in COMMANDS)
    assert outcome.out == plimsoll("help").out == plimsoll("-h").out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(plimsoll, command):
    outcome = plimsoll(command, "--help")
    assert outcome.status == 0
    assert outcome.out.startswith(f"usage: plimsoll {command}")
    assert outcome.out == plimsoll("help", command).out
    assert max(map(len, outcome.out.splitlines())) <= 100


def test_version(plimsoll):
    header = (ROOT / "include/plimsoll/version.h").read_text()
    name, version = plimsoll("--version").out.split()
    assert name == "plimsoll"
    assert f'PLIMSOLL_VERSION "{version}"' in header


def test_misspelled_commands_and_options_get_a_suggestion(plimsoll):
    complains(plimsoll("help", "reprt"), 2, "did you mean report?")
    complains(plimsoll("--verison"), 2, "did you mean --version?")


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["compare"], "plimsoll diff BEFORE AFTER"),
        (["help", "compare"], "plimsoll diff BEFORE AFTER"),
        (["summary"], "plimsoll report FILE"),
        (["tree"], "plimsoll report FILE"),
        (["live"], "plimsoll top"),
        (["attach", "4711"], "cannot be attached to"),
        (["report", "x", "--group-by", "line"], "did you mean --by?"),
        (["top", "-d", "1"], "did you mean --interval?"),
        (["top", "--loop=1"], "did you mean --interval?"),
        (["export", "x", "--to", "chrome"], "speedscope and html"),
        (["diff", "x"], "needs an AFTER"),
    ],
)
def test_words_of_other_tools_get_the_command_to_use(plimsoll, words, instead):
    complains(plimsoll(*words), 2, instead)


def test_the_schema_is_that_of_the_documents(plimsoll):
    printed = json.loads(plimsoll("schema").out)
    assert printed == json.loads((ROOT / "docs/report.schema.json").read_text())


def test_docs_cli_md_is_the_output_of_the_command(plimsoll):
    written = (ROOT / "docs/cli.md").read_text()
    assert plimsoll("help", "--markdown").out == written, "plimsoll help --markdown > docs/cli.md"
