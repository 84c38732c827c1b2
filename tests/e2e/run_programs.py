"""Small programs that print everything they can observe about how Python started them."""

import io
import zipfile
from dataclasses import dataclass, field

FAKE_TORCH = "__version__ = '0'\n"
SHADOW = "print('the module of the script folder is imported')\n"


@dataclass(frozen=True)
class Program:
    """Files of a folder, and the arguments after ``python3`` or ``plimsoll run`` there."""

    words: tuple[str, ...]
    files: dict[str, str | bytes]
    environment: dict[str, str] = field(default_factory=dict)
    stdin: str = ""


def script(text: str, *words: str, stdin: str = "", **environment: str) -> Program:
    return Program(("main.py", *words), {"main.py": text}, environment, stdin)


def module(files: dict[str, str | bytes], name: str, *words: str) -> Program:
    return Program(("-m", name, *words), files)


def zipped(files: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return b"#!/usr/bin/env python3\n" + content.getvalue()


WHO = """
import sys
main = sys.modules["__main__"]
print(__name__, sys.argv, main.__dict__ is globals(), sorted(globals()))
print(globals().get("__file__"), __spec__ and __spec__.name, __package__, type(__loader__).__name__)
"""
SPAWN = """
import multiprocessing
def work(n):
    return n + 1
class Point:
    pass
print("imported as", __name__)
if __name__ == "__main__":
    context = multiprocessing.get_context("METHOD")
    with context.Pool(1) as pool:
        print(pool.map(work, [1, 2]))
        pool.close()
        pool.join()  # else whether the worker's output is flushed is a matter of time
"""
SHADOWED = ("argparse", "tempfile", "json", "dataclasses", "typing", "runpy", "contextlib")
RECORDED = {f"{name}.py": SHADOW for name in SHADOWED} | {"torch.py": FAKE_TORCH}

PROGRAMS = {
    # how the script is named and found
    "arguments": script(WHO, "a", "-o", "--mode", "", "ü", "--", "-m"),
    "dashes": script(WHO, "--", "x", "--"),
    "dashes_of_a_module": module({"mod.py": WHO}, "mod", "--", "-o", "x"),
    "globals": script("print(sorted(globals().items(), key=lambda item: item[0])[:3])"),
    "path": script("import sys\nprint(sys.path, sys.flags, sys.orig_argv, sys.executable)"),
    "modules": script("import sys\nprint(sorted(set(sys.modules) - {'atexit'}))"),
    "environment": script("import os\nprint(list(os.environ.items()))"),
    "c_environment": script("import subprocess\nsubprocess.run(['env'])"),
    "python_path": script(
        "import os, sys\nprint(sys.path, os.environ['PYTHONPATH'])", PYTHONPATH="lib::/nowhere:lib"
    ),
    "empty_python_path": script(
        "import os, sys\nprint(sys.path, repr(os.environ['PYTHONPATH']))", PYTHONPATH=""
    ),
    "safe_path": script("import sys\nprint(sys.path, sys.flags)", PYTHONSAFEPATH="1"),
    "in_a_folder": Program(
        ("sub/main.py",), {"sub/main.py": WHO + "import near", "sub/near.py": ""}
    ),
    "without_suffix": Program(("main",), {"main": WHO}),
    "absent": Program(("nothing.py",), {}),
    "a_folder_without_main": Program(("sub",), {"sub/other.py": ""}),
    "standard_input": Program(("-",), {}, {}, "print(__name__, __builtins__)"),
    "no_newline": script("print(1)\nx = 2  # the end"),
    "byte_order_mark": Program(("main.py",), {"main.py": b"\xef\xbb\xbfprint('bom')\n"}),
    "latin_1": Program(("main.py",), {"main.py": b"# coding: latin-1\nprint(len('\xe4'))\n"}),
    "null_byte": Program(("main.py",), {"main.py": b"print(1)\n\x00\n"}),
    "syntax_error": script("print(1)\nif:\n"),
    "future": script("from __future__ import annotations\nx: y = 1\nprint(__annotations__)"),
    # __file__, and files that are found through it
    "file_after_chdir": script("import os\nos.chdir('/')\nprint(open(__file__).read(), __file__)"),
    "source": script("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))"),
    "source_of_main": script(
        "import inspect, sys\nprint(inspect.getsource(sys.modules['__main__']))"
    ),
    "stack": script("import inspect\nprint([(f.filename, f.function) for f in inspect.stack()])"),
    "linecache": script("import linecache\nprint(linecache.getline(__file__, 2))"),
    "vanished_folder": script(
        "import os\nos.mkdir('x')\nos.chdir('x')\nos.rmdir('../x')\nprint(__file__)"
    ),
    # -m, packages, folders and archives
    "module": module({"pack/__init__.py": "print('init')", "pack/mod.py": WHO}, "pack.mod", "-x"),
    "package": module({"pack/__init__.py": "", "pack/__main__.py": WHO}, "pack", "word"),
    "package_without_main": module({"pack/__init__.py": ""}, "pack"),
    "absent_module": module({}, "no_such_module"),
    "relative_import": module(
        {"pack/__init__.py": "", "pack/mod.py": "from . import near", "pack/near.py": WHO},
        "pack.mod",
    ),
    "path_of_module": module({"mod.py": "import sys\nprint(sys.path, sys.orig_argv)"}, "mod"),
    "standard_module": module({}, "json.tool", "--help"),
    "folder": Program(
        ("app",), {"app/__main__.py": WHO + "import near", "app/near.py": "print(1)"}
    ),
    "archive": Program(
        ("app.pyz", "x"), {"app.pyz": zipped({"__main__.py": WHO + "import near", "near.py": ""})}
    ),
    "archive_without_suffix": Program(("app",), {"app": zipped({"__main__.py": WHO})}),
    "traceback_in_archive": Program(("app.pyz",), {"app.pyz": zipped({"__main__.py": "1 / 0"})}),
    # errors and exits
    "traceback": script("def f():\n    raise ValueError('x')\nf()"),
    "traceback_of_module": module({"mod.py": "def f():\n    1 / 0\nf()"}, "mod"),
    "chained": script("try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError(1) from e"),
    "group": script("raise BaseException('a', 1)"),
    "exit_number": script("import sys\nsys.exit(7)"),
    "exit_text": script("raise SystemExit('goodbye')"),
    "exit_none": script("raise SystemExit"),
    "os_exit": script("import os\nprint('lost')\nos._exit(9)"),
    "killed": script("import os\nos.kill(os.getpid(), 15)"),
    "interrupted": script("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile 1: pass"),
    "aborted": script("import os\nos.abort()"),
    "excepthook": script("import sys\nprint(sys.excepthook is sys.__excepthook__)"),
    "own_excepthook": script(
        "import sys, traceback\n"
        "sys.excepthook = lambda k, e, t: print(traceback.extract_tb(t), e.__traceback__ is t)\n"
        "1 / 0"
    ),
    "at_exit": script("import atexit\natexit.register(print, 'bye')\n1 / 0"),
    "import_error": script("import nothing_of_this_name"),
    "recursion": script("import sys\nprint(sys.getrecursionlimit())\ndef f(): f()\nf()"),
    "closed_stderr": script("import sys\nsys.stderr.close()\nprint('ok')"),
    "closed_stdout": script("import os\nos.close(1)\nprint('x', flush=True)"),
    # the state of the interpreter
    "signals": script(
        "import signal\nprint({s: str(signal.getsignal(s)) for s in signal.valid_signals()})\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    ),
    "warnings": script("import warnings\nprint(warnings.filters)\nwarnings.warn('here')"),
    "warning_filters": script("import warnings\nprint(warnings.filters)", PYTHONWARNINGS="error"),
    "descriptors": script("import os\nprint(os.listdir('/proc/self/fd'), os.isatty(0))"),
    "threads": script("import threading\nprint([each.name for each in threading.enumerate()])"),
    "locale": script(
        "import os, sys\nprint(sys.flags, sys.stdout.encoding, os.environ.get('LC_CTYPE'))",
        LC_ALL="",
        LC_CTYPE="",
        LANG="C",
    ),
    "hash_seed": script("print(hash('plimsoll'))", PYTHONHASHSEED="7"),
    "dev_mode": script("import sys\nprint(sys.flags)\nopen('f')", PYTHONDEVMODE="1"),
    "optimised": script("assert False\nprint(__debug__)", PYTHONOPTIMIZE="1"),
    "audit": script("import sys\nsys.addaudithook(print)\nprint(input())", stdin="word\n"),
    "builtins": script("import builtins\nprint(vars(builtins).keys(), __builtins__ is builtins)"),
    "hooks": script("import sys\nprint(sys.path_hooks, sys.gettrace(), sys.getprofile())"),
    "importer_cache": script("import sys\nprint(sorted(sys.path_importer_cache))"),
    # classes and processes
    "pickle": script(
        "import pickle\nclass A:\n    pass\nprint(pickle.dumps(A()), type(pickle.loads("
        "pickle.dumps(A()))) is A, A.__module__)"
    ),
    "spawn": script(SPAWN.replace("METHOD", "spawn")),
    "forkserver": script(SPAWN.replace("METHOD", "forkserver")),
    "fork": script(SPAWN.replace("METHOD", "fork")),
    "spawn_from_module": module({"mod.py": SPAWN.replace("METHOD", "spawn")}, "mod"),
    "subprocess": script(
        "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', "
        "'import sys, os; print(sys.path, sorted(os.environ))'], text=True))"
    ),
    "exec": script(
        "import os, sys\nif len(sys.argv) == 1:\n"
        "    os.execv(sys.executable, [sys.executable, __file__, 'again'])\nprint(sys.argv)"
    ),
    # modules that the script's folder shadows, and sitecustomize
    "shadowed": Program(("main.py",), {"main.py": "import argparse", "argparse.py": SHADOW}),
    "shadowed_while_recorded": Program(("main.py",), RECORDED | {"main.py": "import torch"}),
    "imported_after_torch": Program(
        ("main.py",), RECORDED | {"main.py": "import torch\nimport tempfile, json"}
    ),
    "shadowed_in_the_current_folder": Program(
        ("sub/main.py",), RECORDED | {"sub/main.py": "print(1)", "plimsoll.py": SHADOW}
    ),
    "own_site_customisation": Program(
        ("main.py",),
        {
            "main.py": "import sitecustomize\nprint(sitecustomize.__file__)",
            "lib/sitecustomize.py": "print('site')",
            "lib/usercustomize.py": "print('user')",
        },
        {"PYTHONPATH": "lib"},
    ),
    "failing_site_customisation": Program(
        ("main.py",), {"main.py": "", "lib/sitecustomize.py": "1 / 0"}, {"PYTHONPATH": "lib"}
    ),
    "no_site_customisation": script("import sitecustomize"),
    # while torch is imported, and after it
    "torch": Program(
        ("main.py",),
        {
            "main.py": "import sys, torch\nprint(torch.__spec__, torch.__loader__, sys.path)\n"
            "print(len(sys.meta_path), sys.excepthook is sys.__excepthook__)",
            "torch.py": FAKE_TORCH,
        },
    ),
    "torch_fails": Program(("main.py",), {"main.py": "import torch", "torch.py": "1 / 0"}),
    "torch_lacks_a_module": Program(
        ("main.py",), {"main.py": "import torch", "torch.py": "import nothing_there"}
    ),
    "torch_warns": Program(
        ("main.py",),
        {
            "main.py": "import torch",
            "torch.py": FAKE_TORCH + "import warnings\nwarnings.warn('old', stacklevel=2)",
        },
    ),
    "no_torch": script("import sys\nsys.path.clear()\nimport torch"),
    "torch_at_second_try": Program(
        ("main.py",),
        {
            "main.py": "import sys\npath = sys.path[:]\nsys.path.clear()\n"
            "try:\n    import torch\nexcept ImportError as e:\n    print(e)\n"
            "sys.path[:] = path\nimport torch\nprint(torch.__version__)",
            "torch.py": FAKE_TORCH,
        },
    ),
    "error_after_torch": Program(
        ("main.py",),
        {"main.py": "import torch\ndef f():\n    1 / 0\nf()", "torch.py": FAKE_TORCH},
    ),
}
