"""Which compiled adapters are loaded, and how a compiler or adapter can affect the program."""

import dataclasses
import os
import shlex
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from compiler_processes import hanging_compiler, is_running
from tests.support.waiting import wait_until

from plimsoll._torch import adapter, adapter_cache
from plimsoll.errors import AdapterError

MODULE = """
#include <Python.h>
#include <cstdio>
static PyObject* problem(PyObject*, PyObject*) { Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"problem", problem, METH_NOARGS, ""}, {}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_small", "", -1, methods};
PyMODINIT_FUNC PyInit__small() {
  AT_INIT;
  return PyModule_Create(&definition);
}
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache for this process only."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(adapter_cache, "_folders", lambda: [str(folder)])
    monkeypatch.setattr(adapter, "_loaded", {})
    monkeypatch.setattr(adapter, "_problems", {})
    return folder


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Compiles a small adapter with a statement that runs when it is loaded."""
    root = tmp_path / "sources"
    (root / "adapters/small").mkdir(parents=True)
    (root / "include/plimsoll").mkdir(parents=True)
    for header in adapter._HEADERS:
        (root / "include/plimsoll" / header).write_text("")
    monkeypatch.setattr(adapter, "sources", lambda source: root / "adapters/small")

    def make(statement: str = "") -> adapter.AdapterSource:
        text = MODULE.replace("AT_INIT", statement)
        (root / "adapters/small/small.cc").write_text(text)
        return adapter.AdapterSource("_small", "small", "small.cc", libraries=(), seconds=1)

    return make


def load(source):
    return adapter.load_adapter(source, lambda _: None, lambda module: module.problem())


def library_in(cache) -> Path:
    (path,) = cache.glob("*/_small.so")
    return path


# ---- the cache ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_adapter_is_compiled_once_and_used_without_a_compiler(cache, small, monkeypatch):
    source = small()
    first = load(source)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(adapter, "_loaded", {})
    monkeypatch.setattr(adapter, "_torch_root", lambda: Path("/another/environment/torch"))
    assert load(source) is not first
    assert sorted(path.name for path in library_in(cache).parent.iterdir()) == [
        "_small.so",
        "lock",
        "log.txt",
    ]


@pytest.mark.slow
def test_an_adapter_of_the_wheel_is_used_without_a_compiler(cache, small, monkeypatch):
    source = small()
    built = adapter.compiled(source, lambda _: None).content
    packaged = adapter.packaged_file(source)
    packaged.parent.mkdir(parents=True)
    packaged.write_bytes(built)
    monkeypatch.setattr(adapter_cache, "_folders", lambda: [str(cache / "new")])
    monkeypatch.setenv("CXX", "/bin/false")
    assert load(source) is not None
    assert adapter.compiled(source, pytest.fail).content == built


@pytest.mark.slow
def test_an_adapter_of_the_wheel_that_fails_is_compiled_again(cache, small):
    source = small()
    packaged = adapter.packaged_file(source)
    packaged.parent.mkdir(parents=True)
    packaged.write_bytes(b"of another machine")
    said = []
    assert adapter.compiled(source, said.append).content != packaged.read_bytes()
    assert "compiling" in said[0]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "writable"])
def test_a_damaged_adapter_is_compiled_again(cache, small, damage, monkeypatch):
    source = small()
    load(source)
    path = library_in(cache)
    good = path.read_bytes()
    if damage == "writable":
        path.chmod(0o666)
    else:
        path.write_bytes({"cut": good[:4096], "empty": b"", "garbage": b"x" * len(good)}[damage])
    monkeypatch.setattr(adapter, "_loaded", {})
    said = []
    adapter.load_adapter(source, said.append, lambda module: module.problem())
    assert len(said) == 1
    assert path.read_bytes() == good
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("planted", ["writable_parent", pytest.param("owner", marks=needs_root)])
@pytest.mark.slow
def test_an_adapter_that_another_user_could_have_placed_is_not_loaded(
    planted, cache, small, tmp_path, monkeypatch
):
    """Bytes and seal are right, so only the owner and the permissions matter."""
    source = small(f'std::fclose(std::fopen("{tmp_path}/loaded", "w"));')
    load(source)
    (tmp_path / "loaded").unlink()
    monkeypatch.setattr(adapter, "_loaded", {})
    if planted == "owner":
        os.chown(library_in(cache).parent, 1234, 1234)
    else:
        cache.chmod(0o777)
    said = []
    with pytest.raises(AdapterError, match="no folder for the adapter"):
        adapter.load_adapter(source, said.append, lambda module: module.problem())
    assert not (tmp_path / "loaded").exists()
    assert f"the adapter cache {cache} is not used" in said[0]


@pytest.mark.slow
def test_an_unusable_folder_is_replaced_by_the_next_one(small, cache, tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    folders = ["/proc/nowhere", str(shared), str(cache)]
    monkeypatch.setattr(adapter_cache, "_folders", lambda: folders)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    load(small())
    assert library_in(cache).is_file()
    assert not list(shared.iterdir())
    assert not list(temporary.iterdir())


def test_the_folders_of_the_cache(monkeypatch):
    monkeypatch.setenv("PLIMSOLL_CACHE", "/chosen")
    assert adapter_cache._folders()[0] == "/chosen"
    monkeypatch.delenv("PLIMSOLL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/base")
    first, *others = adapter_cache._folders()
    assert first == "/base/plimsoll"
    assert all(str(os.geteuid()) in folder for folder in others)
    assert not any(folder.startswith("/tmp") for folder in (first, *others))


# ---- the compiler and the first test ------------------------------------------------------------


@pytest.mark.parametrize("value", ["'", "/nonexistent/g++", "/bin/false", "g++ '-O", "\\"])
def test_a_malformed_or_failing_compiler_is_an_adapter_error(value, cache, small, monkeypatch):
    monkeypatch.setenv("CXX", value)
    with pytest.raises(AdapterError):
        load(small())


def test_a_compiler_that_is_not_there_is_named_with_what_to_do(cache, small, monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent/g++ -O1")
    with pytest.raises(AdapterError) as raised:
        load(small())
    assert raised.value.message == (
        "CXX='/nonexistent/g++ -O1' is not a program that can be run; set CXX to a C++ compiler, "
        "or unset it for c++, g++ or clang++"
    )


@pytest.mark.parametrize(
    ("statement", "number"), [("raise(SIGSEGV)", 11), ("abort()", 6), ("raise(SIGBUS)", 7)]
)
@pytest.mark.slow
def test_an_adapter_that_crashes_does_not_take_the_program_down(
    statement, number, cache, small, monkeypatch
):
    source = dataclasses.replace(small(f"{statement};"), flags=("-include", "csignal"))
    with pytest.raises(AdapterError, match=f"crashed \\(signal {number}\\)"):
        load(source)
    assert not list(cache.glob("*/*.so"))
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(AdapterError, match="crashed"):  # tried once per process
        load(source)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["raise(SIGSEGV);", "this does not compile;"])
def test_parts_that_fail_are_left_out(fault, cache, small):
    source = small(f"""
#ifndef LESS
{fault}
#endif
""")
    source = dataclasses.replace(source, flags=("-include", "csignal"), less=("-DLESS",))
    assert load(source) is not None
    library_in(cache)


def test_a_compiler_that_hangs_is_killed_once_for_all_that_wait(
    cache, small, tmp_path, monkeypatch
):
    monkeypatch.setenv("CXX", shlex.quote(str(hanging_compiler(tmp_path))))
    monkeypatch.setattr(adapter, "_HANG_SECONDS", 2)
    source, said, problems = small(), [], []
    all_wait = threading.Barrier(4)  # no rank starts after the compiler has failed
    locked = adapter_cache.Entry.locked

    def locked_by_one(entry, say):
        all_wait.wait(120)
        return locked(entry, say)

    monkeypatch.setattr(adapter_cache.Entry, "locked", locked_by_one)

    def rank():
        try:
            adapter.compiled(source, said.append)
        except AdapterError as error:
            problems.append(str(error))

    ranks = [threading.Thread(target=rank) for _ in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert sorted(line.split()[0] for line in said) == ["compiling", *["waiting"] * 3]
    assert len(problems) == 4
    assert all("hung for 2 seconds" in problem for problem in problems)
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))


@pytest.mark.slow
def test_an_interruption_reaches_the_program_and_ends_the_compiler(
    cache, small, tmp_path, monkeypatch
):
    monkeypatch.setenv("CXX", shlex.quote(str(hanging_compiler(tmp_path))))
    monkeypatch.setattr(adapter, "_HANG_SECONDS", 600)
    signal.siginterrupt(signal.SIGINT, True)  # polars, which other tests import, restarts calls
    source = small()
    main_thread = Path(f"/proc/self/task/{os.getpid()}/syscall")

    # A signal between Python's last check and the call would be noticed when the compiler ends.
    def waits_for_compiler():
        return main_thread.read_text().split()[0] in ("61", "260")  # wait4 on x86-64 and aarch64

    def interrupt():
        wait_until((tmp_path / "pid").exists)
        wait_until(waits_for_compiler)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        load(source)
    thread.join()
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))
    assert not list(cache.glob("*/build"))
