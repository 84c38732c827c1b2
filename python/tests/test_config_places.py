"""Errors in a configuration file: the line and column of each message."""

import pytest

import plimsoll
from plimsoll import load_options

MALFORMED = [
    (b"plimsoll: {interval: 3\nlr: 1\n", ":2:3: invalid YAML: "),
    (b"a: b: c\n", ":1:5: invalid YAML: mapping values are not allowed here"),
    (b"\tplimsoll: 1\n", ":1:1: invalid YAML: found character '\\t' that cannot start any token"),
    (b"\xff\xfe\x00\xd8", ":1:1: invalid YAML: "),
    (b"a: 1\nb: \xff\n", ":2:4: invalid YAML: "),
    (b"a: \x00\n", ":1:4: invalid YAML: "),
    (b"# a list\n- 1\n- 2\n", ":2:1: holds a list, not names with values"),
    (b"!!python/object/apply:os.system ['true']\n", ":1:1: invalid YAML: could not determine a"),
    (b"[" * 100_000, ": nested too deeply"),
]


@pytest.mark.parametrize(("data", "says"), MALFORMED)
def test_invalid_yaml_is_reported_in_one_sentence_with_its_place(data, says, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(data)
    with pytest.raises(plimsoll.CorruptError) as caught:
        load_options(path)
    assert str(caught.value).startswith(f"{path}{says}")
    assert "\n" not in str(caught.value)


WRONG = [  # the same places as in src/config/monitor_config_test.cc
    ("plimsoll:\n  verbos_batches: 3\n", ":2:3: plimsoll: no option 'verbos_batches': did you"),
    ("t:\n  memory_monitor_batches: x\n", ":2:3: t: memory_monitor_batches is 'x'; it must be a"),
    ("verbose_batches: x\n", ":1:1: verbose_batches is 'x'"),
    ("a: &a\n  interval: -1\nplimsoll:\n  <<: *a\n", ":2:3: plimsoll: interval is "),
    ("lr: 1\nplimsoll: [1]\n", ":2:1: plimsoll is ['1']; it must hold options"),
    (
        "lr: 1\nprofile_tensor: true\n",
        ":2:1: no option 'profile_tensor': did you mean 'profile_ten",
    ),
    ("t:\n  enable_memory_monitorng: 1\n", ":2:3: t: no option 'enable_memory_monitorng': did you"),
    (
        "a: {b: {plimsol: {enabled: true}}}\n",
        ":1:9: a: b: no option 'plimsol': did you mean 'plimsoll' at the top level?",
    ),
    (
        "trainer:\n  trainer_params:\n    enable_memory_monitoring: true\n",
        ":3:5: trainer.trainer_params.enable_memory_monitoring has no effect so deep in the"
        " configuration: move it to the top level, or begin its Hydra file with '# @package"
        " _global_'",
    ),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_wrong_value_in_a_file_is_named_with_its_line(text, says, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(plimsoll.InvalidArgumentError) as caught:
        load_options(path)
    assert str(caught.value).startswith(f"{path}{says}")
