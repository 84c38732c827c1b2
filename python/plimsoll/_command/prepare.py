"""``plimsoll prepare``: compiles the adapters ahead of the first recording."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Compile what the installed torch needs and print where it is kept."""
    if importlib.util.find_spec("torch") is None:
        sys.exit(f"plimsoll: torch is not installed for {sys.executable}: nothing to prepare")
    import torch

    from plimsoll._cuda import cuda_adapter, cuda_hooks
    from plimsoll._process.messages import print_notice
    from plimsoll._torch import adapter
    from plimsoll.errors import AdapterError

    wanted = {"adapter": adapter.CPU}
    if cuda_hooks.is_cuda_build():  # on a machine without a GPU, too: others may share the cache
        wanted["CUDA adapter"] = cuda_adapter.CUDA
    for name, source in wanted.items():
        try:
            library = adapter.compiled(source, print_notice)
        except (AdapterError, OSError) as error:
            sys.exit(f"plimsoll: {name}: {error}")
        print(f"{name} for torch {torch.__version__}: {library.path}")


if __name__ == "__main__":
    main()
