"""Run the case of every quirk against a library, and say which are there and which are gone.

    nox -s quirks                      the installed compiler for the CPU
    nox -s quirks -- /path/to/plugin.so

A quirk that is gone from a later version keeps its row, with the last version that had it.
"""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

from devrt_cpu import quirks as of_cpu
from devrt_pjrt import quirks as of_pjrt

CASES = Path(__file__).with_name("cases.py")
QUIRKS = tuple({q.case: q for q in (*of_cpu.QUIRKS, *of_pjrt.QUIRKS)}.values())
_SECONDS = 120


def outcome(quirk, library):
    """Return what came of a quirk's case in a child process; it begins with there or gone."""
    command = [sys.executable, str(CASES), quirk.case, library]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"there: it does not end within {_SECONDS} s"
    if done.returncode < 0:
        return f"there: the process ends with {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return f"unknown: {done.stderr.strip().splitlines()[-1]}"
    return done.stdout.strip().splitlines()[-1]


def installed_library():
    """Return the library of the installed compiler for the CPU."""
    package = importlib.util.find_spec("xla_plugins.xla_cpu_pjrt")
    return None if package is None else str(Path(package.origin or "").with_name("xla_cpu_pjrt.so"))


def identity(library):
    """Return what a library tells of itself."""
    import devrt_pjrt

    opened = devrt_pjrt.library_for("examined", library)
    with devrt_pjrt.make_client(opened, "examined") as client:
        return of_pjrt.identity_of(opened, client.connection.inventory.platform)


def main(library=None):
    """Print a line for each quirk; return how many could not be reported."""
    library = library or installed_library()
    if library is None:
        sys.exit("xla-cpu-pjrt is not installed. Install it, or name a library.")
    reported = identity(library)
    print(f"{library}\n  {reported}, known as {of_pjrt.LIBRARIES.get(reported)}")
    results = [outcome(quirk, library) for quirk in QUIRKS]
    for quirk, result in zip(QUIRKS, results, strict=True):
        print(f"{result}\n  {quirk}; case {quirk.case}")
    return sum(result.startswith("unknown") for result in results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
