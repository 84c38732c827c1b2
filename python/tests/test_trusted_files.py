"""Which folders and files are trusted, because only this user can have written them."""

import grp
import os
import pwd
import struct

import pytest

from plimsoll._torch import adapter_cache, trusted_files
from plimsoll._torch.trusted_files import UntrustedError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


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
