"""Print the skipped and the 25 slowest tests in a folder of JUnit files from GoogleTest and pytest.

python3 tools/slowest_tests.py FOLDER
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

SHOWN = 25


def tests_in(folder: Path) -> list[tuple[float, str, bool]]:
    """Return the seconds and the name of each test, and whether it was skipped."""
    tests = []
    for path in sorted(folder.glob("*.xml")):
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except ElementTree.ParseError:
            print(f"{path} is incomplete")  # the test program was killed
            continue
        for case in cases:
            name = f"{case.get('classname')}.{case.get('name')}"
            tests.append((float(case.get("time", "0")), name, case.find("skipped") is not None))
    return tests


def main() -> None:
    tests = tests_in(Path(sys.argv[1]))
    skipped = [name for _, name, is_skipped in tests if is_skipped]
    print(f"{len(tests)} tests, {len(skipped)} skipped", *skipped, sep="\n          ")
    for seconds, name, _ in sorted(tests, reverse=True)[:SHOWN]:
        print(f"{seconds:7.2f} s  {name}")


if __name__ == "__main__":
    main()
