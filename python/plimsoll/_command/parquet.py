"""``plimsoll export --to parquet``: all tables of a recording, for other engines."""

from __future__ import annotations

import os
import sys


def main(path: str, folder: str, has_force: bool) -> int:
    """Write the tables into a folder; returns the exit status."""
    import plimsoll

    try:
        if os.path.exists(folder) and not has_force:
            print(f"plimsoll: {folder} exists; --force replaces its tables", file=sys.stderr)
            return 2
        files = plimsoll.open(path).to_parquet(folder)
    except plimsoll.InvalidArgumentError as error:
        print(f"plimsoll: {error}", file=sys.stderr)
        return 2
    except (plimsoll.Error, OSError, ModuleNotFoundError) as error:
        print(f"plimsoll: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    size = sum(os.path.getsize(file) for file in files)
    from plimsoll._process.sizes import size_text

    print(f"{folder} ({len(files)} tables, {size_text(size)})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--force" in sys.argv[3:]))
