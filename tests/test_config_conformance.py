"""Configurations read in C++ (src/config) and in Python (config.py): both give the same result."""

import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import plimsoll
from plimsoll._record import monitor_options_help

ROOT = Path(__file__).resolve().parents[1]

BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
HUGE = "".join(f"key{i}: [{i}, value {i}]\n" for i in range(3000))
DOCUMENTS = [
    b"",
    b"# nothing\n",
    b"---\n...\n",
    b"lr: 0.1\nmodel: {interval: 7}\n",
    b"plimsoll:\n",
    b"plimsoll: true\n",
    b"plimsoll: Off\n",
    b"plimsoll: 7\n",
    b"plimsoll: []\n",
    b"plimsoll: {interval: 100, tensorboard: true, section: 'Tensor Profiling'}\n",
    b"plimsoll: {section: yes, record: null, output_dir: '~'}\n",
    b"plimsoll: {record: 'null', output_dir: ~, section: \"\"}\n",
    b"plimsoll:\n  output_dir: ???\n",
    b"plimsoll: {interval: '???'}\n",
    b"plimsoll: ???\n",
    b"trainer:\n  enable_memory_monitoring: ???\n",
    b"plimsoll: {interval: 010}\n",
    b"plimsoll: {interval: 0x10}\n",
    b"plimsoll: {interval: 1_000}\n",
    b"plimsoll: {interval: 1:30}\n",
    b"plimsoll: {interval: 5.0}\n",
    b"plimsoll: {large_tensor_mb: 1.5GB, growth_percent: 1e1, fragmentation_percent: 40%}\n",
    b"plimsoll: {section: 2026-01-01, record: .inf}\n",
    b"plimsoll: {interval: {a: 1}}\n",
    b"plimsoll: {interval: [1, 2]}\n",
    b"plimsoll: {interval: 0, snapshot_at: [1000, 5000, 10000]}\n",
    b"plimsoll: {snapshot_at: 1000}\n",
    b"plimsoll: {snapshot_at: [a]}\n",
    b"plimsoll: {snapshot_at: [[1, 2, 3]]}\n",
    b"plimsoll: {alerts: [true]}\n",
    b"plimsoll: {alerts: ['', false]}\n",
    b"plimsoll: {section: [null, '', x]}\n",
    b"plimsoll: {verbos_batches: 2}\n",
    b"trainer: {trainer_params: {enable_memory_monitorin: true}}\n",
    b"lr: 1\nenable_mem_monitoring: true\n",
    b"lr: 1\nENABLE_MEMORY_MONITORING: true\n",
    b"t: {memory_monitoring_batches: 3}\n",
    b"a: {b: {c: {d: {my_Memory_Monitor: 3}}}}\n",
    b"plimsoll: {zzzzzz: 2}\n",
    b"plimsoll: {1: 2}\n",
    b"plimsoll: {null: 2}\n",
    b"plimsoll: {nvtx: true, batch_size: 32}\n",
    b"plimsoll: {adapter: libtorc}\n",
    b"plimsoll: {phases: [0-500:10, '500-:100']}\n",
    b"plimsoll: {phases: 0-500:10}\n",
    b"plimsoll: {phases: [{from: 0, to: 500, interval: 10}, {from: 500, interval: 100}]}\n",
    b"plimsoll: {phases: [{to: 500}]}\n",
    b"plimsoll: {phases: [{interval: 3, til: 500}]}\n",
    b"plimsoll: {phases: [[0, 5, 1], [5, 9]]}\n",
    b"plimsoll: {phases: [0-9:1, 5-7:2]}\n",
    b"plimsoll: {phases: [[0, [], 1]]}\n",
    b"plimsoll: {phases: [{from: [], interval: 1}]}\n",
    b"plimsoll: {output_dir: [[null, null, []]]}\n",
    b"plimsoll: {output_dir: [[null, null, null]]}\n",
    b"plimsoll: {section: [{interval: {}}]}\n",
    b"plimsoll: {section: [{interval: null}]}\n",
    b"plimsoll: {section: [{interval: ''}]}\n",
    b"interval: 3\nalerts: no\n",
    b"trainer_params: {epochs: 2, enable_memory_monitoring: true, memory_monitor_batches: 5}\n",
    b"trainer_params: {enable_memory_monitoring: false, batch_size: 8}\n",
    b"trainer_params:\n  enable_memory_monitoring: true     # on\n  memory_monitor_batches: 7\n"
    b"  batch_size: 16\n  gradient_accumulation_steps: 2\n  use_amp: true\n"
    b"data:\n  max_cached_sims: 5\n  pin_memory: true\n",
    b"trainer_params: {memory_monitor_batches: x}\n",
    b"lr: 1\nprofile_tensor: true\n",
    b"lr: 1\nt: {enable_memory_monitorng: true}\n",
    b"t: {u: {enable_memory_monitorng: true}}\n",
    b"plimsol: {interval: 3}\n",
    b"trainer: {trainer_params: {enable_memory_monitoring: true}}\n",
    b"trainer: {trainer_params: {enable_memory_monitoring: no}}\n",
    b"trainer: {trainer_params: {profile_tensors: 1, a: {b: 2}}}\n",
    b"trainer: {plimsoll: {interval: 3}}\n",
    b"trainer: {plimsoll: yes}\n",
    b"a: {b: {plimsol: {interval: 3}}}\n",
    b"a: {b: {plimsol: {port: 3}, plimsole: off}}\n",
    b"trainer: {plimsoll: {_target_: plimsoll.Callback, interval: 3}}\n",
    b"a: &a {b: {profile_tensors: true}}\nc: *a\n",
    b"a: {profile_interval: 3, tensor_profile_interval: 4}\nb: {profile_tensors: true}\n",
    b"profile_tensors: true\nenable_memory_monitoring: false\nlr: 1\n",
    b"plimsoll: {interval: 1, interval: 2}\n",
    b"plimsoll: {interval: 1}\nplimsoll: {alerts: no}\n",
    b"base: &b {interval: 3, alert_every: 4}\nplimsoll: {<<: *b, alert_every: 6}\n",
    b"a: &a {interval: 3}\nb: &b {interval: 4, section: S}\nplimsoll:\n  <<: [*a, *b]\n",
    b"plimsoll: {<<: 7}\n",
    b"plimsoll: &p {interval: 3}\ntrain: *p\n",
    b"x: &x [*x]\nplimsoll: {interval: 3}\n",
    b"a: *nothing\n",
    b"a: &a 1\nb: &a 2\nplimsoll: {interval: *a}\n",
    (BOMB + "plimsoll: {interval: 3}\n").encode(),
    (HUGE + "plimsoll: {interval: 3}\n").encode(),
    b"- 1\n- 2\n",
    b"just text\n",
    b"plimsoll: {interval: 3\nlr: 1\n",
    b"a: b: c\n",
    b"\tplimsoll: 1\n",
    b"plimsoll:\n\tinterval: 3\n",
    b"a: 'open\n",
    b"a: 1\n---\nb: 2\n",
    b"a: !include b.yaml\n",
    b"a: !!python/object/apply:os.system ['true']\n",
    b"? [a]\n: 1\n",
    b"a: \xff\n",
    b"a: \xed\xa0\x80\n",
    b"a: \x00\n",
    b"a: \x07\n",
    b"\xef\xbb\xbfplimsoll: {interval: 3}\n",
    "plimsoll: {interval: 3, section: Größe}\n".encode("utf-16"),
    "plimsoll: {section: Größe 漢}\n".encode(),
    b"plimsoll:\r\n  interval: 3\r\n",
    b"plimsoll: {section: |\n  a\n}\n",
    b"plimsoll:\n  section: >-\n    a\n    b\n",
    b"plimsoll: {, interval: 3}\n",
    b"plimsoll: {interval: 3,, alerts: no}\n",
    b"plimsoll:\n  interval 5\n  alerts: no\n",
    b"plimsoll:\n  alerts: no\n  interval 5\n",
    b"plimsoll:\n  record:\n  interval\n",
    b"a: {b: 1}\ninterval",
    b"plimsoll:\n  section:\n    abc\n",
    b"  plimsoll:\n    interval: 3",
    b"plimsoll:\n  phases:\n  - 0-5:1\n  alerts: no\n",
    b"{plimsoll: {interval: 3}}\n",
    b"---\nplimsoll: {interval: 3}\n...\n",
    b"[" * 20_000,
]


class Reader:
    """The test tool read_monitor_config, kept running."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, path: Path) -> tuple[str, list[str]]:
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) != ".\n":
            assert line, "the reader is gone"
            lines.append(line.rstrip("\n"))
        return lines[0], lines[1:]


@pytest.fixture(scope="module")
def reader(built):
    running = Reader(built("tests/read_monitor_config"))
    yield running
    running.process.stdin.close()
    assert running.process.wait(120) == 0


def in_python(path: Path) -> tuple[str, list[str]]:
    try:
        options = plimsoll.load_options(path)
    except plimsoll.Error as error:
        return error.code, [str(error)]
    defaults = {name: default for name, _, _, default, _ in monitor_options_help()}
    pairs = ((name, options.text(name)) for name in defaults)
    return "ok", [f"{name}={text}" for name, text in pairs if text != defaults[name]]


def compare(reader: Reader, path: Path) -> str:
    """Check that both results are equal: the options, or the kind of error. Return the result."""
    ours, theirs = reader.read(path), in_python(path)
    assert ours[0] == theirs[0], (ours, theirs)
    if ours[0] == "ok":
        assert ours[1] == theirs[1]
    else:
        assert ours[1][0].startswith(str(path))
    return ours[0]


@pytest.mark.parametrize("data", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_both_readers_have_one_outcome(reader, data, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_bytes(data)
    compare(reader, path)


def test_both_readers_suggest_the_closest_option(reader, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("plimsoll:\n  verbos_batches: 2\n")
    for _, (sentence,) in (reader.read(path), in_python(path)):
        assert sentence.endswith(
            "plimsoll: no option 'verbos_batches': did you mean 'verbose_batches'?"
        )


def test_missing_files_and_folders_are_errors(reader, tmp_path):
    assert compare(reader, tmp_path / "none.yaml") == "not_found"
    assert compare(reader, tmp_path) == "io"


NAMES = [name for option in monitor_options_help() for name in (option[0], *option[1])]
KEYS = st.sampled_from([*NAMES, "plimsoll", "trainer_params", "from", "to", "interval", "x"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-2, 2000) | st.floats()
    | st.sampled_from(["yes", "0-5:1", "5-:2", "1.5GB", "12%", "auto", "null", "~", "", "a b"])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


CONFIGURATIONS = given(config=st.dictionaries(KEYS, VALUES, max_size=4), is_flow=st.booleans())
EXAMPLES = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@settings(EXAMPLES, max_examples=80)
@CONFIGURATIONS
def test_any_configuration_has_one_outcome(reader, tmp_path, config, is_flow):
    check_configuration(reader, tmp_path, config, is_flow)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=400)
@CONFIGURATIONS
def test_many_configurations_have_one_outcome(reader, tmp_path, config, is_flow):
    check_configuration(reader, tmp_path, config, is_flow)


def check_configuration(reader, tmp_path, config, is_flow):
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(config, default_flow_style=is_flow, allow_unicode=True))
    compare(reader, path)
