"""The options of monitoring, from all their sources."""

import argparse
import resource
import signal
import subprocess
import sys
from pathlib import Path

import omegaconf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plimsoll
from plimsoll import MonitorOptions, config, load_options
from plimsoll._record import monitor_options_help

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(config.os.environ):
        if name.startswith("PLIMSOLL_MONITOR_"):
            monkeypatch.delenv(name)


def written(tmp_path, text: str) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return str(path)


def different(options: MonitorOptions) -> dict[str, str]:
    """The options that differ from their defaults, as text."""
    pairs = ((name, options.text(name)) for name, *_ in monitor_options_help())
    return {name: text for name, text in pairs if text != MonitorOptions().text(name)}


OFF = {"enabled": "false"}
SOURCES = [  # YAML, and what it changes
    ("", OFF),
    ("lr: 0.1\ndata: {path: x, enabled: true, interval: 3}\n", OFF),
    ("plimsoll:\n", {}),
    ("plimsoll: true\n", {}),
    ("plimsoll: no\n", OFF),
    ("plimsoll: {interval: 7, text_log: no}\n", {"interval": "7", "text_log": "false"}),
    ("plimsoll: {enabled: false, interval: 7}\n", OFF | {"interval": "7"}),
    ("plimsoll: {memory_monitor_batches: 2}\n", {"verbose_batches": "2"}),
    ("plimsoll: {record: null, output_dir: a b}\n", {"output_dir": "a b"}),
    ("trainer_params: {epochs: 2, enable_memory_monitoring: true}\n", {}),
    ("trainer_params: {enable_memory_monitoring: false, memory_monitor_batches: 3}\n",
     OFF | {"verbose_batches": "3"}),
    ("trainer_params: {memory_monitor_batches: 3}\n", OFF | {"verbose_batches": "3"}),
    ("training: {enable_memory_monitoring: yes, memory_monitor_batches: 3, output_dir: theirs}\n",
     {"verbose_batches": "3"}),
    ("enable_memory_monitoring: true\nlr: 1\n", {}),
    ("profile_tensors: true\nprofile_interval: 9\nlr: 1\n",
     {"profile_tensors": "true", "interval": "9"}),
    ("profile_tensors: true\nenable_memory_monitoring: false\nlr: 1\n",
     OFF | {"profile_tensors": "true"}),
    ("trainer_params: {enable_memory_monitoring: true, memory_monitor_batches: 3}\n"
     "plimsoll: {verbose_batches: 1}\n", {"verbose_batches": "1"}),
    ("plimsoll: {phases: [0-500:10, '500-:100']}\n", {"phases": "0-500:10,500-:100"}),
    ("plimsoll:\n  phases:\n  - {from: 0, to: 500, interval: 10}\n  - {from: 500, interval: 100}\n",
     {"phases": "0-500:10,500-:100"}),
    ("plimsoll: {phases: 5-9:1}\n", {"phases": "5-9:1"}),
    ("plimsoll: {interval: 0, phases: 5-9:1}\n", {"interval": "0", "phases": "5-9:1"}),
    ("plimsoll: {snapshot_at: [1000, 5000, 10000]}\n", {"snapshot_at": "1000,5000,10000"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "changes"), SOURCES)
def test_a_file_a_dict_and_omegaconf_give_the_same_options(text, changes, tmp_path):
    assert different(load_options(written(tmp_path, text))) == changes
    as_omegaconf = omegaconf.OmegaConf.create(text)
    assert different(load_options(omegaconf.OmegaConf.to_container(as_omegaconf))) == changes
    assert different(load_options(as_omegaconf)) == changes


def test_without_a_source_monitoring_is_on_with_its_defaults():
    assert different(load_options()) == {}
    assert load_options().enabled


def test_a_dict_of_options_alone_is_taken_as_such():
    assert load_options({"interval": 3, "enabled": True}).interval == 3


def test_keywords_go_before_environment_before_file(tmp_path, monkeypatch):
    path = written(tmp_path, "plimsoll: {interval: 1, verbose_batches: 1, top_layers: 1}\n")
    monkeypatch.setenv("PLIMSOLL_MONITOR_VERBOSE_BATCHES", "2")
    monkeypatch.setenv("PLIMSOLL_MONITOR_TOP_LAYERS", "2")
    options = load_options(path, top_layers=3, alert_every=None)
    assert (options.interval, options.verbose_batches, options.top_layers) == (1, 2, 3)
    assert options.alert_every == MonitorOptions().alert_every


def test_the_environment_and_keywords_switch_on_what_no_file_does(monkeypatch):
    assert load_options({"lr": 1}, enabled=True).enabled
    assert not load_options({"lr": 1}).enabled
    monkeypatch.setenv("PLIMSOLL_MONITOR_ENABLED", "1")
    assert load_options({"lr": 1}).enabled


def test_options_are_taken_as_they_are_and_copied(monkeypatch):
    monkeypatch.setenv("PLIMSOLL_MONITOR_INTERVAL", "9")
    first = load_options(verbose_batches=1)
    assert first.interval == 9
    monkeypatch.setenv("PLIMSOLL_MONITOR_INTERVAL", "10")
    second = load_options(first, top_layers=2)
    assert (second.interval, second.verbose_batches, second.top_layers) == (9, 1, 2)
    assert first.top_layers == MonitorOptions().top_layers


BAD = [
    ("plimsoll: {verbos_batches: 1}\n",
     "{}:1:12: plimsoll: no option 'verbos_batches': did you mean 'verbose_batches'?"),
    ("plimsoll: {interval: -1}\n",
     "{}:1:12: plimsoll: interval is '-1'; it must be a whole number, 0 or more"),
    ("plimsoll: {snapshot_at: [1000, soon]}\n",
     "{}:1:12: plimsoll: snapshot_at: 'soon' is not an iteration"),
    ("plimsoll: {interval: {a: 1}}\n",
     "{}:1:12: plimsoll: interval: a dict is neither a number nor text"),
    ("plimsoll: 7\n", "{}:1:1: plimsoll is 7; it must hold options"),
    ("plimsoll: {fragmentation_percent: 140}\n",
     "{}:1:12: plimsoll: fragmentation_percent is '140'"),
    ("trainer: {trainer_params: {enable_memory_monitorin: true}}\n",
     "{}:1:28: trainer: trainer_params: no option 'enable_memory_monitorin': did you mean"
     " 'enable_memory_monitoring'?"),
    ("lr: 1\nenable_mem_monitoring: true\n",
     "{}:2:1: no option 'enable_mem_monitoring': did you mean 'enable_memory_monitoring'?"),
    ("lr: 1\nENABLE_MEMORY_MONITORING: true\n",
     "{}:2:1: no option 'ENABLE_MEMORY_MONITORING': did you mean 'enable_memory_monitoring'?"),
    ("t: {memory_monitoring_batches: 3}\n",
     "{}:1:5: t: no option 'memory_monitoring_batches': did you mean 'memory_monitor_batches'?"),
    ("trainer_params: {memory_monitor_batches: x}\n",
     "{}:1:18: trainer_params: memory_monitor_batches is 'x'"),
    ("plimsoll: {phases: [{from: 0, to: 9, intervall: 2}]}\n",
     "{}:1:12: plimsoll: phases: a phase has no 'intervall'"),
    ("plimsoll: {phases: [{from: 0, to: 9}]}\n",
     "{}:1:12: plimsoll: phases: a phase needs an interval"),
    ('plimsoll: {"\\ud800": 1}\n', "{}:1:12: plimsoll: no option '\\ud800'"),
    ('plimsoll: {adapter: "\\ud800"}\n', "{}:1:12: plimsoll: adapter is '\\ud800'"),
    ("plimsoll: {phases: [7]}\n", "{}:1:12: plimsoll: phases: '7' is not FROM-TO"),
    ("plimsoll: {phases: [[1, 2]]}\n", "{}:1:12: plimsoll: phases: ['1', '2'] is not a phase"),
    ("plimsoll: {phases: [0-9:1, 5-7:2]}\n",
     "{}:1:12: plimsoll: phases: 0-9 and 5-7 both hold iteration 5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), BAD)
def test_mistakes_are_reported_with_their_place(text, says, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(plimsoll.InvalidArgumentError) as caught:
        load_options(path)
    assert str(caught.value).startswith(says.format(path))
    assert "\n" not in str(caught.value)


NAMES = st.sampled_from([*config.FLAGS, *config.FLAGS.values(), "plimsoll", "trainer_params"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
CONFIGS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | LEAVES, inner, max_size=4),
    max_leaves=12,
)


DICTS = given(st.dictionaries(NAMES | LEAVES, CONFIGS, max_size=4))


@settings(max_examples=60, deadline=None, derandomize=True)
@DICTS
def test_any_dict_is_options_or_one_sentence(source):
    check_dict(source)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@DICTS
def test_many_dicts_are_options_or_one_sentence(source):
    check_dict(source)


def check_dict(source):
    try:
        options = load_options(source)
    except plimsoll.InvalidArgumentError as error:
        assert str(error)
    else:
        assert options.interval >= 0


def test_files_that_cannot_be_read_are_reported(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load_options(tmp_path / "none.yaml")
    with pytest.raises(plimsoll.InputOutputError, match="directory"):
        load_options(tmp_path)


def test_without_pyyaml_files_are_refused_and_dicts_are_not(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(plimsoll.UnsupportedError, match="pip install pyyaml"):
        load_options(written(tmp_path, "plimsoll:\n"))
    assert load_options({"plimsoll": None}).enabled


def test_other_values_are_not_a_configuration():
    with pytest.raises(plimsoll.InvalidArgumentError, match="the configuration is of type list"):
        load_options([1])


def test_omegaconf_resolves_only_the_options_of_plimsoll():
    create = omegaconf.OmegaConf.create
    ours = {"every": 4, "plimsoll": {"interval": "${every}"}, "data": "${oc.env:NO_SUCH_VARIABLE}"}
    assert load_options(create(ours)).interval == 4
    assert load_options(create({"base": {"interval": 4}, "plimsoll": "${base}"})).interval == 4
    with pytest.raises(plimsoll.InvalidArgumentError, match=r"^plimsoll\.interval: .*'nothing'"):
        load_options(create({"plimsoll": {"interval": "${nothing}"}}))
    with pytest.raises(
        plimsoll.InvalidArgumentError, match=r"interval is \?\?\?: its value is missing"
    ):
        load_options(create({"plimsoll": {"interval": "???"}}))


def test_a_mistake_in_the_environment_is_reported(monkeypatch):
    monkeypatch.setenv("PLIMSOLL_MONITOR_INTERVALL", "3")
    with pytest.raises(plimsoll.InvalidArgumentError, match="PLIMSOLL_MONITOR_INTERVALL: no opt"):
        load_options()


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--interval", type=int, default=1)  # a flag of another project
    plimsoll.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], OFF),
        (["--profile_tensors"], {"profile_tensors": "true"}),
        (["--profile_tensors", "True"], {"profile_tensors": "true"}),
        (["--profile_tensors", "False"], OFF),
        (["--profile_interval", "20"], OFF | {"interval": "20"}),
        (["--profile_tensors", "--profile_interval", "20", "--profile_phases", "0-9:1"],
         {"profile_tensors": "true", "interval": "20", "phases": "0-9:1"}),
        (["--profile_tensors", "--profile_tensorboard", "--profile_dir", "out"],
         {"profile_tensors": "true", "tensorboard": "true", "output_dir": "out"}),
        (["--profile_tensors", "True", "--profile_section", "Memory",
          "--profile_snapshot_at", "1000,5000"],
         {"profile_tensors": "true", "section": "Memory", "snapshot_at": "1000,5000"}),
        (["--profile_tensorboard", "runs", "--profile_tensors", "--profile_record", "a.plim"],
         {"profile_tensors": "true", "tensorboard": "runs", "record": "a.plim"}),
    ],
)  # fmt: skip
def test_flags_of_a_program_are_understood(words, changes):
    assert different(load_options(parsed(*words))) == changes


def test_profile_tensors_is_a_boolean_for_the_program_too():
    assert parsed().profile_tensors is False
    assert parsed("--profile_tensors", "False").profile_tensors is False
    assert parsed("--profile_tensors", "True").profile_tensors is True
    assert parsed("--profile_tensors").profile_tensors is True


def test_flags_override_defaults_and_the_environment_overrides_flags(monkeypatch):
    monkeypatch.setenv("PLIMSOLL_MONITOR_INTERVAL", "5")
    assert load_options(parsed("--profile_interval", "20")).interval == 5


def test_a_wrong_flag_is_named_as_the_user_wrote_it(capsys):
    with pytest.raises(SystemExit):
        parsed("--profile_tensors", "Maybe")
    assert "argument --profile_tensors: profile_tensors is 'Maybe'" in capsys.readouterr().err
    for flag, value in (("interval", "x"), ("phases", "a-b"), ("alert_above", "12GX")):
        with pytest.raises(plimsoll.InvalidArgumentError, match=f"^--profile_{flag}"):
            load_options(parsed("--profile_tensors", f"--profile_{flag}", value))


@pytest.mark.parametrize(
    ("source", "options", "named"),
    [
        (["--profile_phases", "0-9:1"], {}, "--profile_phases"),
        (["--profile_tensorboard"], {}, "--profile_tensorboard"),
        (["--profile_tensors", "True", "--profile_phases", "0-9:1"], {}, None),
        ([], {}, None),
        ([], {"output_dir": "out", "tensorboard": True}, None),
        ({"lr": 1, "profile_tensors": False}, {"tensorboard": True}, None),
        ({"lr": 1}, {"output_dir": "out"}, None),
        ({"lr": 1}, {"tensorboard": True}, "tensorboard"),
        ({"lr": 1}, {"tensorboard": False}, None),
        ({"lr": 1}, {"tensorboard": True, "enabled": False}, None),
        ({"enable_memory_monitoring": False}, {"tensorboard": True}, None),
        ({"lr": 1, "memory_monitor_batches": 3}, {}, None),
        (None, {"tensorboard": True}, None),
    ],
)
def test_an_option_that_has_no_effect_is_named(source, options, named, capsys):
    load_options(parsed(*source) if isinstance(source, list) else source, **options)
    printed = capsys.readouterr().err
    expected = f"plimsoll: monitoring is off, so {named} has no effect: add "
    assert printed.startswith(expected) if named else not printed


def test_the_namespace_of_a_program_without_our_flags_leaves_monitoring_off():
    assert not load_options(argparse.Namespace(lr=1, interval=3, record=True)).enabled
    assert load_options(argparse.Namespace(lr=1, enable_memory_monitoring=True)).enabled


def test_the_help_of_the_flags_is_the_schemas(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    reported = " ".join(capsys.readouterr().out.split())
    for name, _, _, _, sentence in monitor_options_help():
        if name in config.FLAGS.values():
            assert sentence in reported


def test_every_option_is_an_attribute():
    options = MonitorOptions()
    for name, _, kind, default, _ in monitor_options_help():
        value = getattr(options, name)
        if kind == "bool":
            assert str(value).lower() == default
        elif name not in ("phases", "snapshot_at"):
            assert str(value).removesuffix(".0") == default
    assert options.phases == []
    assert options.snapshot_at == []


def test_values_of_other_types_are_taken():
    options = load_options(
        interval=7,
        large_tensor_mb=2.5,
        output_dir=Path("a"),
        phases=[(0, 9, 2), "9-12:1"],
        snapshot_at=[5000, 1000],
    )
    assert (options.interval, options.large_tensor_mb, options.output_dir) == (7, 2.5, "a")
    assert options.phases == [(0, 9, 2), (9, 12, 1)]
    assert options.snapshot_at == [1000, 5000]
    assert repr(options).startswith("MonitorOptions(interval='7', phases='0-9:2,9-12:1'")


def test_the_manual_has_the_table_of_the_schema():
    manual = (ROOT / "docs/monitoring-reference.md").read_text()
    assert config.option_table() in manual, "renew it: print(plimsoll.config.option_table())"


def test_reading_options_imports_neither_yaml_nor_omegaconf_nor_torch():
    code = (
        "import sys, plimsoll; plimsoll.load_options({'plimsoll': {'interval': 3}});"
        "print({'yaml', 'omegaconf', 'torch'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


@pytest.fixture
def bounded():
    """Limit memory to one GiB more than now, and end a test that takes minutes."""

    def too_long(*_):
        raise TimeoutError

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limit[1]))
    signal.alarm(120)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, limit)
    signal.signal(signal.SIGALRM, handler)


def bomb(kind):
    """A few lines that expand to 10^9 texts or pairs."""
    lines = {"lists": ["a0: &a0 [x, x]"], "merges": ["a0: &a0 {k: 1}"]}[kind]
    for i in range(1, 10):
        others = ",".join([f"*a{i - 1}"] * 10)
        more = f"[{others}]" if kind == "lists" else f"{{k{i}: 1, <<: [{others}]}}"
        lines.append(f"a{i}: &a{i} {more}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("lists", "{snapshot_at: [[*a9, 1, 2]]}"),
        ("lists", "{snapshot_at: *a9}"),
        ("lists", "{interval: *a9}"),
        ("lists", "{phases: [{from: *a9, to: 1, interval: 2}]}"),
        ("merges", "*a9"),
    ],
)
def test_an_expansion_bomb_is_rejected(kind, block, tmp_path, bounded):
    path = tmp_path / "bomb.yaml"
    path.write_text(bomb(kind) + f"plimsoll: {block}\n")
    with pytest.raises(plimsoll.Error) as raised:
        plimsoll.load_options(path)
    assert len(str(raised.value)) < 1000


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "large.yaml"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(plimsoll.LimitError, match="16 MiB"):
        plimsoll.load_options(path)


def test_a_path_with_a_zero_byte_is_refused():
    with pytest.raises(plimsoll.InvalidArgumentError, match="zero byte"):
        plimsoll.load_options("a\0b")
    with pytest.raises(plimsoll.InvalidArgumentError, match="zero byte"):
        plimsoll.load_options(output_dir="a\0b")


def test_text_that_utf8_cannot_encode_is_refused_as_such():
    with pytest.raises(plimsoll.InvalidArgumentError, match="it must be text that UTF-8 can"):
        MonitorOptions().set("record", "a\udcff.plim")
