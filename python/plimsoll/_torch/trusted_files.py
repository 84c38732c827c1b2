"""Files whose content this process executes or trusts: only this user or root can write them.

A folder is opened one component at a time, symbolic links included. Each component must belong to
this user or to root, and nobody else may write to it; a sticky folder such as /tmp is accepted,
because there nobody can replace what belongs to this user. What has been opened is then used
through its descriptor, so no check can be overtaken by a change of the path.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections import deque

from plimsoll._process.program_errors import Suppressed
from plimsoll._process.quiet_files import write_all

_MOST_LINKS = 40
_MOST_BYTES = 256 << 20
_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedError(Exception):
    """Another user could have written this."""


def open_folder(path: str, *, private: bool = False) -> int:
    """Opens a folder, and makes what is missing of its path with mode 0700.

    Args:
        path: The folder.
        private: The folder itself may not be sticky and open to others.

    Returns:
        A descriptor that the caller closes.

    Raises:
        UntrustedError: Somebody else can write to a part of the path.
        OSError: The folder cannot be made or opened.
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
                _check(state, walked, root)
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
        with contextlib.suppress(FileExistsError):  # another process has just made it
            os.mkdir(name, 0o700, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)


def read(folder: int, name: str, where: str) -> bytes:
    """The content of a file in an opened folder.

    Raises:
        UntrustedError: Another user can write to it, or it is not a regular file.
        OSError: It cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
            raise UntrustedError(f"{where}/{name} is not a regular file of this kind")
        _check(state, f"{where}/{name}")
        return file.read(_MOST_BYTES)


def publish(folder: int, name: str, content: bytes) -> None:
    """Puts a file into an opened folder: whole or not at all, also after a crash of the machine.

    Raises:
        OSError: It cannot be written.
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
    with Suppressed(OSError):  # some file systems cannot
        os.fsync(folder)


def _check(state: os.stat_result, where: str, *others: int) -> None:
    """Raises if anybody but this user, root and `others` owns a file, or can write to it."""
    _check_owner(state, where, *others)
    mode = state.st_mode
    is_sticky_folder = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if is_sticky_folder or not mode & 0o022:
        return
    if mode & 0o002 or not _is_own_group(state.st_gid):
        raise UntrustedError(f"others can write to {where}")


def _check_owner(state: os.stat_result, where: str, *others: int) -> None:
    if state.st_uid not in (os.geteuid(), 0, *others):
        raise UntrustedError(f"{where} belongs to another user (uid {state.st_uid})")


@functools.cache
def _is_own_group(gid: int) -> bool:
    """Whether it is the group that many systems make for each user, with no other member."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not group.gr_mem
