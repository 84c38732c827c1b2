"""The pickle machine, compared with Python's own: it reads the same values from any pickler.

Anything that could run code is refused by name, in every protocol and for every opcode.
"""

import io
import json
import os
import pickle
import pickletools
import struct
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROTOCOLS = [2, 3, 4, 5]
WINDOWS = [64, 1 << 18]  # the smallest, so that every opcode crosses its edge; and the real one


class Machine:
    """The test tool pickle_to_json, kept running."""

    def __init__(self, program):
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
        )

    def answer(self, data: bytes, window: int) -> list:
        self._process.stdin.write(b"%d %d\n" % (len(data), window) + data)
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the machine died of {data[:200]!r}"
        return json.loads(line)

    def load(self, data: bytes):
        answers = [self.answer(data, window) for window in WINDOWS]
        assert answers[0] == answers[1]
        assert answers[0][0] == "ok", answers[0]
        return answers[0][1]

    def refuse(self, data: bytes) -> tuple[str, str]:
        answers = [self.answer(data, window) for window in WINDOWS]
        assert answers[0][:2] == answers[1][:2]
        assert answers[0][0] == "error", answers[0]
        return answers[0][1], answers[0][2]

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(timeout=120) == 0


@pytest.fixture(scope="module")
def machine(built):
    running = Machine(built("tests/pickle_to_json"))
    yield running
    running.close()


def said(value):
    """Return a Python value in the form in which the tool prints it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return ["int", str(value)] if -(2**63) <= value < 2**64 else ["int"]
    if isinstance(value, float):
        return ["float", struct.pack(">d", value).hex()]
    if isinstance(value, str):
        return ["str", value]
    if isinstance(value, bytes):
        return ["bytes"]
    if isinstance(value, dict):
        return ["dict", *(said(each) for item in value.items() for each in item)]
    return [type(value).__name__, *map(said, value)]


def python_pickler(value, protocol):
    file = io.BytesIO()
    pickle._Pickler(file, protocol).dump(value)
    return file.getvalue()


def optimized(value, protocol):
    return pickletools.optimize(pickle.dumps(value, protocol))


def unmemoized(value, protocol):
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol)
    pickler.fast = True
    pickler.dump(value)
    return file.getvalue()


PICKLERS = [pickle.dumps, python_pickler, optimized, unmemoized]


def check(machine, value, protocols=PROTOCOLS):
    expected = said(value)
    for protocol in protocols:
        for pickler in PICKLERS:
            assert machine.load(pickler(value, protocol)) == expected, (pickler, protocol)


numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**66), max_value=2**66),
    st.sampled_from(
        [s * 2**b + d for b in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 1) for s in (1, -1)]
    ),
    st.floats(),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=20))


@st.composite
def plain_data(draw):
    """A value with shared parts: each container takes items from all earlier ones."""
    pool = draw(st.lists(leaves, min_size=1, max_size=6))
    pool += [[], {}, ()]
    for kind in draw(st.lists(st.sampled_from([list, tuple, dict]), min_size=1, max_size=10)):
        items = draw(st.lists(st.sampled_from(range(len(pool))), max_size=5))
        values = [pool[index] for index in items]
        if kind is dict:
            keys = draw(st.lists(leaves, min_size=len(values), max_size=len(values)))
            pool.append(dict(zip(keys, values, strict=True)))
        else:
            pool.append(kind(values))
    return pool[-1]


EXAMPLES = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@settings(EXAMPLES, max_examples=50)
@given(plain_data())
def test_any_plain_data_is_read_as_python_wrote_it(machine, value):
    check(machine, value)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=300)
@given(plain_data())
def test_much_plain_data_is_read_as_python_wrote_it(machine, value):
    check(machine, value)


SLOW_COUNTS = [pytest.param(count, marks=pytest.mark.slow) for count in (999, 2000, 2001, 3500)]


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 1001, *SLOW_COUNTS])
def test_batches(machine, count):
    check(machine, list(range(count)))
    check(machine, tuple(range(count)))
    check(machine, {f"key {i}": i for i in range(count)})
    check(machine, [[i, {"i": i}] for i in range(count)])


SLOW_LENGTHS = [pytest.param(length, marks=pytest.mark.slow) for length in (65535, 70_000, 300_000)]


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65536, *SLOW_LENGTHS])
def test_strings_of_every_length_field(machine, length):
    text = "ä" * (length // 2) + "x" * (length % 2)
    check(machine, [text, text, {text: text}])
    check(machine, {"after": b"y" * length, "more": 1}, protocols=[3, 4, 5])


@pytest.mark.parametrize("bits", [*range(0, 81, 8), 63, 64, 65, 2039, 2040, 2048, 70_000])
def test_integers_of_every_width(machine, bits):
    for value in (2**bits - 1, 2**bits, -(2**bits) - 1, -(2**bits), 2**bits + 1):
        check(machine, {"value": value})


def test_nine_byte_integers(machine):
    """LONG1 with nine bytes: 2**63 up to 2**64 - 1, as addresses may be stored."""
    for value in (2**63, 2**64 - 1):
        data = pickle.dumps(value, 4)
        assert b"\x8a\x09" in data
        assert machine.load(data) == ["int", str(value)]
    assert machine.load(pickle.dumps(2**64, 4)) == ["int"]  # nine bytes, but beyond 64 bits


def test_shared_empty_containers_stay_empty(machine):
    empty_list, empty_dict = [], {}
    check(machine, [empty_list, empty_list, [empty_list], empty_dict, {"a": empty_dict}, ()])


def test_shared_containers_that_are_filled(machine):
    shared = [1, {"a": 2}]
    check(machine, [shared, shared, {"x": shared}, (shared, shared), [shared] * 1500])


def test_deep_nesting(machine):
    value = []
    for _ in range(60):
        value = [{"deeper": (value,)}]
    check(machine, value)


def recursive_values():
    itself = []
    itself.append(itself)
    yield itself
    mapping = {}
    mapping["itself"] = mapping
    yield mapping
    inner = []
    inner.append((inner, 1))
    yield (inner,)
    filled = {"first": 1}
    filled["list"] = [filled]
    yield filled
    long = list(range(1500))
    long.append(long)
    yield long
    wide = {str(i): i for i in range(1500)}
    wide["list"] = [wide]
    yield wide


@pytest.mark.parametrize(
    "value", list(recursive_values()), ids=["list", "dict", "tuple", "key", "long", "wide"]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_recursive_structures_are_refused_with_a_message(machine, value, protocol):
    for pickler in (pickle.dumps, python_pickler, optimized):
        code, message = machine.refuse(pickler(value, protocol))
        assert code == "corrupt"
        assert "contains itself" in message


class RunsCode:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("pickler", [pickle.dumps, python_pickler, optimized])
def test_os_system_is_refused_by_name(machine, protocol, pickler):
    code, message = machine.refuse(pickler([1, RunsCode()], protocol))
    if protocol >= 2:  # 0 and 1 begin with opcodes that no snapshot has
        assert code == "unsafe"
        assert f"{os.system.__module__}.system" in message
    assert code in ("unsafe", "unsupported")


REFUSED = {
    "GLOBAL": b"cos\nsystem\n",
    "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93",
    "REDUCE": b"N)R",
    "INST": b"(ios\nsystem\n",
    "OBJ": b"(No",
    "NEWOBJ": b"N)\x81",
    "NEWOBJ_EX": b"N)}\x92",
    "EXT1": b"\x82\x01",
    "EXT2": b"\x83\x01\x00",
    "EXT4": b"\x84\x01\x00\x00\x00",
    "PERSID": b"Pid\n",
    "BINPERSID": b"NQ",
    "BUILD": b"}}b",
    "NEXT_BUFFER": b"\x97",
    "READONLY_BUFFER": b"N\x98",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_opcodes_that_reach_outside_are_refused_by_name(machine, name, protocol):
    data = b"\x80" + bytes([protocol]) + b"]" + REFUSED[name]
    for whole in (data + b".", data + b"a" + b"N" * 200 + b"."):
        code, message = machine.refuse(whole)
        assert code == "unsafe"
        assert f"opcode {name} " in message
        if name in ("GLOBAL", "STACK_GLOBAL", "INST"):
            assert "os.system" in message


def test_every_opcode_of_python_is_read_or_refused(machine):
    """No opcode is missing: a byte that Python knows never gives 'no opcode'."""
    for opcode in pickletools.opcodes:
        data = b"\x80\x04N" + opcode.code.encode("latin-1") + b"\0" * 20 + b"."
        kind, *rest = machine.answer(data, 64)
        assert kind == "ok" or "is not an opcode" not in rest[1].split(":")[0], opcode.name


@pytest.mark.parametrize(
    ("data", "name"),
    [(pickle.dumps({1, 2}, 4), "EMPTY_SET"), (pickle.dumps(bytearray(b"x"), 5), "BYTEARRAY8")],
)
def test_harmless_opcodes_that_no_snapshot_has_are_named(machine, data, name):
    code, message = machine.refuse(data)
    assert code == "unsupported"
    assert name in message
