"""Print the 25 tests that took longest, of the JUnit files in a folder (GoogleTest's and pytest's).

python3 tools/slowest_tests.py FOLDER
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

SHOWN = 25


def seconds_of_tests(folder: Path) -> list[tuple[float, str]]:
    tests = []
    for path in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            tests.append((float(case.get("time", "0")), name))
    return tests


def main() -> None:
    tests = seconds_of_tests(Path(sys.argv[1]))
    print(f"{len(tests)} tests")
    for seconds, name in sorted(tests, reverse=True)[:SHOWN]:
        print(f"{seconds:7.2f} s  {name}")


if __name__ == "__main__":
    main()
