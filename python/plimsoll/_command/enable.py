"""``plimsoll enable`` and ``disable``: whether PLIMSOLL=1 records without an import of plimsoll.

The command executes this file by its path, so the file must not import plimsoll.
"""

import os
import sys
import sysconfig

_NAME = "plimsoll-enable.pth"
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Python runs this line at startup. If PLIMSOLL is set, the line arranges that plimsoll is imported
# after torch; plimsoll then does what PLIMSOLL requests.
_START = """\
if os.path.exists({path}):
    with open({path}, encoding="utf-8") as file:
        start = compile(file.read(), {path}, "exec")
    names = {{"__name__": "plimsoll_start"}}
    exec(start, names)
    names["call_after_torch"](lambda: __import__("plimsoll"))
"""


def line_of(package: str) -> str:
    """Return the content of the ``.pth`` file, for the package in this folder."""
    start = _START.format(path=ascii(os.path.join(package, "_start", "torch_import.py")))
    is_off = 'os.environ.get("PLIMSOLL", "0") in ("", "0")'
    return f'import os; {is_off} or exec({start!a}, {{"os": os}})\n'


def main(word: str) -> None:
    """Write or remove the ``.pth`` file."""
    if sys.prefix == sys.base_prefix:
        sys.exit(
            f"plimsoll: {sys.executable} is not in a virtual environment, and a shared"
            " installation is not changed; use plimsoll run, or import plimsoll"
        )
    path = os.path.join(sysconfig.get_path("purelib"), _NAME)
    try:
        if word == "enable":
            _write(path)
            print(
                f"wrote {path}: with PLIMSOLL=1, programs of {sys.prefix} that import torch record"
            )
        elif os.path.exists(path):
            os.remove(path)
            print(f"removed {path}")
        else:
            print(f"{path} does not exist: nothing to do")
    except OSError as error:
        sys.exit(f"plimsoll: {error}")


def _write(path: str) -> None:
    unfinished = f"{path}.{os.getpid()}.tmp"
    with open(unfinished, "w", encoding="ascii") as file:
        file.write(line_of(_FOLDER))
    os.replace(unfinished, path)


if __name__ == "__main__":
    main(sys.argv[1])
