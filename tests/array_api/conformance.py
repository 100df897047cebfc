"""Run data-apis/array-api-tests on devrt.numpy, twice: the second time from the disk cache.

    python tests/array_api/conformance.py CHECKOUT [pytest's arguments]

CHECKOUT is a clone of https://github.com/data-apis/array-api-tests with its submodule. The cases
that are expected to fail stand in expected_failures.txt, each with its reason.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXPECTED = HERE / "expected_failures.txt"
LEAST = 1290
"""How many of the cases of revision 55fcc60 have to pass; it has 1,380."""


def run(checkout: Path, folder: Path, arguments: list[str]) -> dict[str, int]:
    """Run the cases once; return how many there are of each outcome."""
    report = folder / "report.json"
    environment = os.environ | {
        "ARRAY_API_TESTS_MODULE": "devrt.numpy",
        "ARRAY_API_TESTS_VERSION": "2024.12",
        "DEVRT_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "DEVRT_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    # A case may compile, which takes longer than the deadline of an example. The list's path is a
    # part of its option: as a word of its own pytest would take the configuration beside it.
    # Examples are the same in both runs, so that the second one asks for the same programs.
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *(
            "--max-examples",
            "4",
            "--disable-deadline",
            "--derandomize",
            f"--xfails-file={EXPECTED}",
        ),
        *("--json-report", f"--json-report-file={report}", *(arguments or ["array_api_tests"])),
    ]
    ended = subprocess.run(command, cwd=checkout, env=environment, check=False)
    found = json.loads(report.read_text())
    counts: dict[str, int] = found["summary"]
    for case in found["tests"]:
        if case["outcome"] == "xpassed":
            sys.stdout.write(f"passes, and is listed: {case['nodeid']}\n")
    if ended.returncode:
        sys.exit(f"cases fail that {EXPECTED.name} does not name: {counts}")
    return counts


def kept(cache: Path) -> dict[str, int]:
    """Return the programs of a disk cache; one that is written anew has another number."""
    return {path.name: path.stat().st_ino for path in cache.iterdir() if path.is_file()}


def main() -> None:
    """Run the cases from an empty disk cache, then from a filled one."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    checkout, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        before: dict[str, int] = {}
        for cache in ("empty", "filled"):
            counts = run(checkout, Path(folder), arguments)
            passed = counts.get("passed", 0) + counts.get("xpassed", 0)
            after = kept(Path(folder, "cache"))
            written = len(after.items() - before.items())
            sys.stdout.write(
                f"disk cache {cache}: {passed} of {counts['total']} cases pass, "
                f"{written} programs compiled anew of {len(after)}\n"
            )
            if not arguments and passed < LEAST:
                sys.exit(f"{LEAST} were to pass")
            before = after


if __name__ == "__main__":
    main()
