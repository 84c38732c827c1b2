"""The folder of a fleet: ``v1/TABLE/run=RUN/PART.parquet``, on a disk or an object store.

A part is what one recording adds, or several joined. Its file in the table `ranks` is written last:
the other tables count only through it, so an interrupted `add` leaves only files that readers
ignore.
"""

from __future__ import annotations

import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, unquote

from plimsoll._process.packages import needed
from plimsoll._process.replaced_file import write_replacing
from plimsoll.errors import CorruptError, InvalidArgumentError

VERSION = 1
TABLES = ("steps", "peaks", "findings", "ranks")  # ranks last
SITES = "sites"  # not by run: its parts are named by their content
JOINED = "joined"  # next to the folders of runs: the parts of several runs


class Folder:
    """The files of a fleet, by names such as ``ranks/run=a/rank00000-0123abcd``."""

    def __init__(self, text: str | os.PathLike[str]) -> None:
        self.text = os.fspath(text)
        fs: Any = needed("pyarrow.fs")
        if is_remote(self.text):
            self._files, self._root = file_system_of(self.text)
        else:
            self._files, self._root = fs.LocalFileSystem(), os.path.abspath(self.text)
        self._fs = fs
        self.is_local = isinstance(self._files, fs.LocalFileSystem)

    def _path(self, name: str) -> str:
        return f"{self._root}/v{VERSION}/{name}.parquet"

    def write(self, name: str, data: bytes) -> None:
        """Write a file that appears only when it is complete."""
        path = self._path(name)
        if self.is_local:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_replacing(path, lambda write: write(data))
        else:  # an object store shows an object only when it is complete
            with self._files.open_output_stream(path) as stream:
                stream.write(data)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._files.open_input_stream(self._path(name)) as stream:
            content: bytes = stream.read()
            return content

    def delete(self, names: list[str]) -> None:
        """Delete files."""
        for name in names:
            self._files.delete_file(self._path(name))

    def columns(self, name: str) -> list[str]:
        """Return the names of a file's columns.

        Raises:
            ValueError: It is not a Parquet file.
            OSError: It cannot be read.
        """
        pq: Any = needed("pyarrow.parquet")
        return list(pq.read_schema(self._path(name), filesystem=self._files).names)

    def size(self, name: str) -> int:
        """Return the bytes of a file; 0 if there is none."""
        return self._files.get_file_info(self._path(name)).size or 0

    def names(self, under: str) -> list[str]:
        """Return the names of all files under ``TABLE`` or ``TABLE/run=RUN``, sorted."""
        top = f"{self._root}/v{VERSION}/"
        selector = self._fs.FileSelector(top + under, recursive=True, allow_not_found=True)
        return sorted(
            each.path.removeprefix(top).removesuffix(".parquet")
            for each in self._files.get_file_info(selector)
            if each.is_file and each.path.endswith(".parquet")
        )

    def versions(self) -> list[int]:
        """Return the versions of the layout that the folder contains."""
        selector = self._fs.FileSelector(self._root, allow_not_found=True)
        names = (each.base_name for each in self._files.get_file_info(selector))
        return sorted(int(name[1:]) for name in names if re.fullmatch(r"v\d{1,4}", name))

    def on_this_machine(self, names: list[str], scratch: str) -> list[str]:
        """Return the paths of files; those of an object store are copied into `scratch`."""
        if self.is_local:
            return [self._path(name) for name in names]

        def copy(name: str) -> str:
            path = f"{scratch}/{name}.parquet"
            if not os.path.exists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(self.read(name))
            return path

        with ThreadPoolExecutor(16) as threads:
            return list(threads.map(copy, names))


def damaged(folder: Folder, name: str) -> CorruptError:
    """Return the error about a file that is no part of a fleet."""
    return CorruptError(
        "corrupt",
        f"{folder.text}/v{VERSION}/{name}.parquet is damaged, or not from plimsoll fleet; delete"
        " it, and add its recording again",
    )


def is_remote(text: str) -> bool:
    """Return whether the text is an address such as ``s3://bucket/runs``."""
    return re.match(r"[a-z][a-z0-9+.-]*://", text) is not None


def file_system_of(address: str) -> tuple[Any, str]:
    """Return pyarrow's file system for the address, or fsspec's, and the path in it."""
    fs: Any = needed("pyarrow.fs")
    if re.match(r"gc?s://[^?]*$", address):  # pyarrow's limit is 15 minutes, also without a network
        address += "?retry_limit_seconds=20"
    try:
        files, path = fs.FileSystem.from_uri(address)
        return files, path
    except (ValueError, NotImplementedError, OSError):  # not one of pyarrow's own
        fsspec: Any = needed("fsspec")
        try:
            files, path = fsspec.core.url_to_fs(address)
        except (ValueError, ImportError) as error:
            raise InvalidArgumentError("invalid_argument", f"{address}: {error}") from error
        return fs.PyFileSystem(fs.FSSpecHandler(files)), path.rstrip("/")


def fetched(address: str, scratch: str) -> str:
    """Copy a recording from an object store, and return its path on this machine."""
    files, path = file_system_of(address)
    handle, copy = tempfile.mkstemp(dir=scratch, suffix="-" + os.path.basename(path))
    with files.open_input_stream(path) as source, os.fdopen(handle, "wb") as target:
        while piece := source.read(1 << 22):
            target.write(piece)
    return copy


def run_folder(run: str) -> str:
    """Return the name of a run's folders."""
    return "run=" + quote(run, safe="")


def run_of(name: str) -> str | None:
    """Return the run to which a file belongs; None if it has several."""
    folder = name.split("/")[1]
    return None if folder == JOINED else unquote(folder.removeprefix("run="))
