"""Run the case of every quirk against libraries, and say which are there and which are gone.

    nox -s quirks                      every compiler for the CPU that is installed
    nox -s quirks -- /path/to/plugin.so

A quirk that is gone from a later version keeps its row, with the last version that had it.
"""

import signal
import subprocess
import sys
from pathlib import Path

from devrt.compiling.xla_cpu_quirks import QUIRKS
from devrt_cpu import _library
from devrt_pjrt import quirks as of_pjrt

CASES = Path(__file__).with_name("cases.py")
_SECONDS = 120


def outcome(case, library):
    """Return what came of a quirk's case in a child process; it begins with there or gone."""
    command = [sys.executable, str(CASES), case, library]
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


def identity(library):
    """Return what a library tells of itself."""
    import devrt_pjrt

    opened = devrt_pjrt.library_for("examined", library)
    with devrt_pjrt.make_client(opened, "examined") as client:
        return of_pjrt.identity_of(opened, client.connection.inventory.platform)


def report(library, quirks=QUIRKS):
    """Print a line for each case; return how many are not what the rows say, or are not known."""
    reported = identity(library)
    known = of_pjrt.LIBRARIES.get(reported)
    print(f"{library}\n  {reported}, known as {known}")
    wrong = 0
    for case in dict.fromkeys(quirk.case for quirk in quirks):
        result = outcome(case, library)
        rows = [q for q in quirks if q.case == case and known is not None and q.is_in(known)]
        print(f"{result}\n  case {case}: {rows[0] if rows else 'no row for this library'}")
        wrong += result.startswith("unknown") or result.startswith("there") != bool(rows)
    return wrong


def main(libraries):
    """Report on some libraries, or on those that are installed; return how many lines are wrong."""
    found = libraries or [library.path for library in _library.installed()]
    if not found:
        sys.exit("no compiler for the CPU is installed. Install one, or name a library.")
    return sum(map(report, found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
