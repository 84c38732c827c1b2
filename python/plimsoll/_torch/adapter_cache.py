"""The cache of compiled adapters: one folder for each key, in a folder that can be trusted.

An adapter is one file: the shared library, then a seal with its size and hash. The whole file is
read, checked, and loaded from memory, so the checked bytes are the bytes that run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator

from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll._torch import trusted_files
from plimsoll._torch.trusted_files import UntrustedError
from plimsoll.errors import AdapterError

_SEAL = struct.Struct("<32sQ16s")  # SHA-256 of the library, its size, the magic
_MAGIC = b"plimsoll-seal-1\0"
_LOCK_SECONDS = 300  # a hung compiler is killed long before


def default_folder() -> str:
    """Return the preferred folder: PLIMSOLL_CACHE, or one in the user's cache folder."""
    chosen = os.environ.get("PLIMSOLL_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return chosen or os.path.join(base, "plimsoll")


def _folders() -> list[str]:
    user = os.geteuid()
    return [default_folder(), f"/var/tmp/plimsoll-{user}", f"/run/user/{user}/plimsoll-adapters"]


def seal(library: bytes) -> bytes:
    """Return the content of the file for a library."""
    return library + _SEAL.pack(hashlib.sha256(library).digest(), len(library), _MAGIC)


def unseal(content: bytes) -> bytes | None:
    """Return the library if the content is exactly what `seal` wrote."""
    if len(content) < _SEAL.size:
        return None
    library, ending = content[: -_SEAL.size], content[-_SEAL.size :]
    return library if ending == seal(library)[-_SEAL.size :] else None


class Entry:
    """The opened folder of one key."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = trusted_files.open_folder(path, private=True)

    def close(self) -> None:
        """Closes the folder."""
        os.close(self._folder)

    def library(self, name: str) -> bytes | None:
        """Return the library of this name; None if there is none or it is damaged."""
        try:
            return unseal(trusted_files.read(self._folder, f"{name}.so", self.path))
        except (OSError, UntrustedError) as error:
            leave_to_program(error)
            return None

    def keep(self, name: str, library: bytes) -> None:
        """Store a library, replacing an earlier one of that name."""
        with Suppressed(OSError):  # on a full disk: this process still has the library in memory
            trusted_files.publish(self._folder, f"{name}.so", seal(library))

    def fail(self, name: str, problem: str) -> None:
        """Record a problem, so that processes that wait for this library give up too."""
        with Suppressed(OSError):
            content = problem.encode(errors="backslashreplace")
            trusted_files.publish(self._folder, f"{name}.failed", content)

    def failed_since(self, name: str, time_ns: int) -> str | None:
        """Return the problem that a process has recorded since that time."""
        with Suppressed(OSError, UntrustedError):
            problem = trusted_files.read(self._folder, f"{name}.failed", self.path)
            if os.stat(f"{name}.failed", dir_fd=self._folder).st_mtime_ns >= time_ns:
                return problem.decode(errors="replace")
        return None

    @contextlib.contextmanager
    def locked(self, say: Callable[[str], object]) -> Iterator[None]:
        """Admit one process at a time, also among machines if the file system has locks.

        Args:
            say: Called with a line if another process has the lock.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        end = time.monotonic() + _LOCK_SECONDS
        has_said = False
        with open(os.open("lock", flags, 0o600, dir_fd=self._folder), "wb") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise AdapterError(
                            f"another process is still compiling the adapter ({self.path}/lock)"
                        ) from None
                    if not has_said:
                        has_said = True
                        say(
                            "waiting for another process that compiles the adapter; "
                            "`plimsoll prepare` does it beforehand"
                        )
                    time.sleep(0.05)
                except OSError as error:
                    leave_to_program(error)
                    break
            yield


@contextlib.contextmanager
def entry(key: str, name: str, say: Callable[[str], object]) -> Iterator[Entry]:
    """Return the first trusted folder that has the library, or else the first that is writable.

    Raises:
        AdapterError: There is no such folder.
    """
    problems = []
    for folder in _folders():
        try:
            found = Entry(os.path.join(folder, key))
        except (OSError, UntrustedError, ValueError) as error:
            leave_to_program(error)
            problems.append(str(error))
            if isinstance(error, UntrustedError):
                say(f"the adapter cache {folder} is not used: {error}")
            continue
        try:
            if found.library(name) is not None or os.access(found.path, os.W_OK):
                yield found
                return
        finally:
            found.close()
        problems.append(f"{found.path} cannot be written")
    raise AdapterError(f"there is no folder for the adapter ({'; '.join(problems)})")
