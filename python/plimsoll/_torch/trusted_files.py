"""Reads and writes files that this process executes: only this user or root can write them.

A folder is opened one component at a time, including symbolic links. Each component must belong to
this user or to root, and no other user may be able to write to it, not even through a group or an
access control list. A sticky folder such as /tmp is accepted, because others cannot replace this
user's files there. Opened folders are then used through their descriptors, so that a later change
of the path has no effect.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections import deque

from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll._process.quiet_files import write_all

_MOST_LINKS = 40
_MOST_BYTES = 256 << 20
_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedError(Exception):
    """Another user could have written the file."""


def open_folder(path: str, *, private: bool = False) -> int:
    """Open a folder, and create the missing part of its path with mode 0700.

    Args:
        path: The folder.
        private: Whether the folder itself must not be writable by others, even if it is sticky.

    Returns:
        A descriptor that the caller closes.

    Raises:
        UntrustedError: Another user can write to a part of the path.
        OSError: The folder cannot be created or opened.
    """
    parts = deque(os.path.abspath(path).split("/"))
    at, walked, links = os.open("/", _FOLDER | os.O_DIRECTORY), "/", 0
    root = os.fstat(at).st_uid  # in a user namespace without root, root's files show another uid
    try:
        while parts:
            part = parts.popleft()
            if part in ("", "."):
                continue
            walked = os.path.normpath(os.path.join(walked, part))
            below = _open_or_make(part, at)
            at, above = below, at
            state = os.fstat(at)
            if not stat.S_ISLNK(state.st_mode):
                os.close(above)
                _check(state, at, walked, root)
                continue
            os.close(below)
            at = above
            _check_owner(state, walked, root)
            links += 1
            if links > _MOST_LINKS:
                raise UntrustedError(f"{path} has too many symbolic links")
            target = os.readlink(part, dir_fd=at)
            parts.extendleft(reversed(target.split("/")))
            walked = os.path.dirname(walked)
            if target.startswith("/"):
                os.close(at)
                at, walked = os.open("/", _FOLDER | os.O_DIRECTORY), "/"
        state = os.fstat(at)
        if private:
            _check_owner(state, walked)
            if state.st_mode & stat.S_ISVTX and state.st_mode & 0o022:
                raise UntrustedError(f"others can write to {walked}")
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _open_or_make(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process has just created it
            os.mkdir(name, 0o700, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)


def read(folder: int, name: str, where: str) -> bytes:
    """Return the content of a file in an opened folder.

    Raises:
        UntrustedError: Another user can write to it, or it is not a regular file.
        OSError: It cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
            raise UntrustedError(f"{where}/{name} is not a regular file of this kind")
        _check(state, file.fileno(), f"{where}/{name}")
        return file.read(_MOST_BYTES)


def publish(folder: int, name: str, content: bytes) -> None:
    """Write a file into an opened folder: after a crash of the machine it is whole or absent.

    Raises:
        OSError: The file cannot be written.
    """
    partial = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(partial, flags, 0o600, dir_fd=folder), "wb") as file:
            write_all(file.fileno(), content)
            os.fsync(file.fileno())
        os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with Suppressed(OSError):
            os.unlink(partial, dir_fd=folder)
        raise
    with Suppressed(OSError):  # some file systems do not support this
        os.fsync(folder)


def _check(state: os.stat_result, file: int, where: str, *others: int) -> None:
    """Raise if anyone but this user, root and `others` owns the file or can write to it."""
    _check_owner(state, where, *others)
    mode = state.st_mode
    is_sticky_folder = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if is_sticky_folder or not mode & 0o022:
        return
    if mode & 0o002 or not _is_own_group(state.st_gid) or _has_access_list(file):
        raise UntrustedError(f"others can write to {where}")


def _check_owner(state: os.stat_result, where: str, *others: int) -> None:
    if state.st_uid not in (os.geteuid(), 0, *others):
        raise UntrustedError(f"{where} belongs to another user (uid {state.st_uid})")


@functools.cache
def _is_own_group(gid: int) -> bool:
    """Return whether this is a private group of the user: nobody else is a member.

    Group 0 is never private: containers are often run with any user number and group 0.
    """
    import grp
    import pwd

    uid = os.geteuid()
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    if gid == 0 or user.pw_gid != gid or group.gr_name != user.pw_name:
        return False
    others = [each for each in pwd.getpwall() if each.pw_gid == gid and each.pw_uid != uid]
    members = [each.gr_mem for each in [group, *grp.getgrall()] if each.gr_gid == gid]
    return not others and not any(members)


def _has_access_list(file: int) -> bool:
    """Return whether others may have rights that the bits of the group do not show (acl(5))."""
    try:
        names = os.listxattr(f"/proc/self/fd/{file}")  # a descriptor of O_PATH has no attributes
    except OSError as error:
        leave_to_program(error)
        return error.errno != errno.ENOTSUP
    return any(name.endswith(("acl_access", "nfs4_acl", "richacl")) for name in names)
