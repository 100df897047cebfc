"""Compile every operation that traced functions are printed with, for each kind of device.

``python tests/emitted/report.py`` compiles for the CPU, for TPUs (``v5e:2x4``) and for GPUs
(``h100:8``), neither of which has to be there. It fails where a compiler refuses what
``refused.toml`` does not list, and where one takes what is listed there.
"""

import contextlib
import sys
import tomllib
from pathlib import Path

import devrt

devrt.config.update("num_cpu_devices", 8)

import cases  # noqa: E402  its arrays are placed on the devices that are requested above

from devrt.programs.host_functions import answer_calls  # noqa: E402
from devrt.runtime import make_pjrt_topology  # noqa: E402

REFUSED = Path(__file__).with_name("refused.toml")
TOPOLOGIES = {"tpu": "v5e:2x4", "cuda": "h100:8"}


def compilers():
    """Return for each kind of device a function that compiles a text."""

    def for_cpu(text):
        count = 8 if "mhlo.num_partitions = 8" in text else 1
        devices = devrt.devices("cpu")[:count]
        code = answer_calls(text, devices[0].client)
        devices[0].client.compile_and_load(code, devices)

    found = {"cpu": for_cpu}
    for platform, name in TOPOLOGIES.items():
        found[platform] = make_pjrt_topology(platform, name).compile
    return found


def refusals(compile_, programs):
    """Return the reason of each program that a compiler refuses."""
    found = {}
    for name, text in programs.items():
        try:
            compile_(text)
        except devrt.errors.DevrtError as error:
            found[name] = " ".join(error.message.split())
    return found


def main() -> int:
    """Compile all, and print what is refused."""
    programs = cases.chosen()
    covered: set[str] = set().union(*map(cases.operations_of, programs.values()))
    listed = tomllib.loads(REFUSED.read_text(encoding="utf-8"))
    problems = [f"no program has {name}" for name in cases.named_operations() - covered]
    for platform, compile_ in compilers().items():
        found = refusals(compile_, programs)
        known = listed.get(platform, {})
        print(f"{platform}: {len(programs) - len(found)} of {len(programs)} programs compile")
        for name, reason in found.items():
            print(f"  refused: {name}: {reason[:300]}")
            if name not in known:
                problems.append(f"{platform} refuses {name}, which refused.toml does not list")
        problems += [f"{platform} takes {name}, which is listed" for name in known.keys() - found]
    print(f"{len(covered)} operations")
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
