"""Which compiled adapters are loaded, and how a compiler or an adapter can affect the program."""

import dataclasses
import grp
import os
import pwd
import signal
import struct
import tempfile
import threading
import time
from pathlib import Path

import pytest
from compiler_processes import hanging_compiler, is_running, wait_until

from plimsoll._torch import adapter, adapter_cache, trusted_files
from plimsoll._torch.trusted_files import UntrustedError
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


# ---- folders and files --------------------------------------------------------------------------


def opened(path, **how):
    os.close(trusted_files.open_folder(str(path), **how))
    return True


def test_folders_of_this_user_are_made_private(tmp_path):
    assert opened(tmp_path / "a/b", private=True)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o702])
def test_a_folder_that_others_can_write_to_is_refused_anywhere_in_the_path(tmp_path, mode):
    (tmp_path / "a/b/c").mkdir(parents=True)
    for part in ("a", "a/b", "a/b/c"):
        (tmp_path / part).chmod(mode)
        with pytest.raises(UntrustedError, match=f"others can write to {tmp_path / part}$"):
            opened(tmp_path / "a/b/c")
        (tmp_path / part).chmod(0o755)
    assert opened(tmp_path / "a/b/c")


def test_a_sticky_folder_is_passed_through_but_is_not_private(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a").chmod(0o1777)
    assert opened(tmp_path / "a/b", private=True)
    with pytest.raises(UntrustedError):
        opened(tmp_path / "a", private=True)


PERSON = ("someone", "x", 1000, 1000, "", "/", "/bin/sh")
OTHER = ("other", "x", 1001, 1000, "", "/", "/bin/sh")


@pytest.mark.parametrize(
    ("users", "groups", "is_own"),
    [
        ([PERSON], [("someone", "x", 1000, [])], True),
        ([PERSON], [("someone", "x", 1000, ["other"])], False),
        ([PERSON], [("staff", "x", 1000, [])], False),
        ([PERSON, OTHER], [("someone", "x", 1000, [])], False),
        ([PERSON], [("someone", "x", 1000, []), ("also", "x", 1000, ["other"])], False),
        ([("root", "x", 1000, 0, "", "/", "")], [("root", "x", 0, [])], False),
        ([], [], False),
    ],
    ids=["private", "member", "shared name", "second user", "second group", "group 0", "unknown"],
)
def test_only_a_group_without_anyone_else_may_write(users, groups, is_own, monkeypatch):
    users = [pwd.struct_passwd(each) for each in users]
    groups = [grp.struct_group(each) for each in groups]
    uids = {each.pw_uid: each for each in users}
    gids = {each.gr_gid: each for each in reversed(groups)}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwuid", uids.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(grp, "getgrgid", gids.__getitem__)
    monkeypatch.setattr(grp, "getgrall", lambda: groups)
    gid = groups[0].gr_gid if groups else 1000
    assert trusted_files._is_own_group.__wrapped__(gid) is is_own


def test_a_folder_that_an_access_list_opens_to_others_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(trusted_files, "_is_own_group", lambda _: True)
    folder = tmp_path / "a"
    folder.mkdir()
    folder.chmod(0o770)
    assert opened(folder, private=True)
    nobody = 0xFFFFFFFF
    entries = [(1, 7, nobody), (2, 7, 1234), (4, 0, nobody), (16, 7, nobody), (32, 0, nobody)]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    os.setxattr(folder, "system.posix_acl_access", listed)
    assert folder.stat().st_mode & 0o777 == 0o770
    with pytest.raises(UntrustedError, match=f"others can write to {folder}$"):
        opened(folder)


@needs_root
@pytest.mark.parametrize("part", ["a", "a/b", "a/b/c"])
def test_a_folder_of_another_user_is_refused_anywhere_in_the_path(tmp_path, part):
    (tmp_path / "a/b/c").mkdir(parents=True)
    os.chown(tmp_path / part, 1234, 0)
    with pytest.raises(UntrustedError, match="uid 1234"):
        opened(tmp_path / "a/b/c")


@needs_root
def test_a_link_of_another_user_is_refused_and_links_are_followed_with_checks(tmp_path):
    (tmp_path / "real/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/../real")
    assert opened(tmp_path / "link/b")
    os.chown(tmp_path / "real", 1234, 0)
    with pytest.raises(UntrustedError, match="real"):
        opened(tmp_path / "link/b")
    os.chown(tmp_path / "real", 0, 0)
    os.chown(tmp_path / "link", 1234, 0, follow_symlinks=False)
    with pytest.raises(UntrustedError, match="link"):
        opened(tmp_path / "link/b")


def test_a_circle_of_links_ends(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(UntrustedError, match="too many symbolic links"):
        opened(tmp_path / "a")


@pytest.mark.parametrize("kind", ["link", "fifo", "writable", "folder"])
def test_only_regular_files_that_others_cannot_write_are_read(tmp_path, kind):
    (tmp_path / "real").write_bytes(b"content")
    path = tmp_path / "file"
    if kind == "link":
        path.symlink_to("real")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"content")
        path.chmod(0o666)
    folder = trusted_files.open_folder(str(tmp_path))
    assert trusted_files.read(folder, "real", "") == b"content"
    with pytest.raises((OSError, UntrustedError)):
        trusted_files.read(folder, "file", "")
    os.close(folder)


def test_a_file_is_published_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = trusted_files.open_folder(str(tmp_path))
    trusted_files.publish(folder, "file", b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        trusted_files.publish(folder, "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
    os.close(folder)


def test_a_seal_breaks_with_any_byte():
    whole = adapter_cache.seal(b"library")
    assert adapter_cache.unseal(whole) == b"library"
    for size in range(len(whole)):
        assert adapter_cache.unseal(whole[:size]) is None
        changed = bytes([*whole[:size], whole[size] ^ 1, *whole[size + 1 :]])
        assert adapter_cache.unseal(changed) is None
    assert adapter_cache.unseal(whole + b"\0") is None


# ---- the cache ----------------------------------------------------------------------------------


def test_an_adapter_is_compiled_once_and_used_without_a_compiler(cache, small, monkeypatch):
    source = small()
    first = load(source)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(adapter, "_loaded", {})
    assert load(source) is not first
    assert sorted(path.name for path in library_in(cache).parent.iterdir()) == [
        "_small.so",
        "lock",
        "log.txt",
    ]


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
def test_an_adapter_that_another_user_could_have_placed_is_not_loaded(
    planted, cache, small, tmp_path, monkeypatch
):
    """The bytes and the seal are right, so only the owner and the permissions matter."""
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


def test_another_folder_takes_the_place_of_one_that_cannot_be_used(
    small, cache, tmp_path, monkeypatch
):
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


def test_a_compiler_that_hangs_is_killed_once_for_all_that_wait(
    cache, small, tmp_path, monkeypatch
):
    monkeypatch.setenv("CXX", str(hanging_compiler(tmp_path)))
    monkeypatch.setattr(adapter, "_HANG_SECONDS", 2)
    source, said, problems = small(), [], []

    def rank():
        try:
            adapter.compiled(source, said.append)
        except AdapterError as error:
            problems.append(str(error))

    begin = time.monotonic()
    ranks = [threading.Thread(target=rank) for _ in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert time.monotonic() - begin < 15
    assert len(said) == 1  # one compiled, the others waited
    assert len(problems) == 4
    assert all("hung for 2 seconds" in problem for problem in problems)
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_an_interruption_reaches_the_program_and_ends_the_compiler(
    cache, small, tmp_path, monkeypatch
):
    monkeypatch.setenv("CXX", str(hanging_compiler(tmp_path)))
    source = small()

    def interrupt():
        wait_until((tmp_path / "pid").exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        load(source)
    thread.join()
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))
    assert not list(cache.glob("*/build"))
