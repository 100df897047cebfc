"""Names and options of TPU topologies, checked before the library sees them.

Source: what ``libtpu`` accepts. A dimension of zero ends the process there, and a very large
topology takes seconds to describe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from devrt.errors import InvalidArgumentError

__all__ = ["GENERATIONS", "check"]

GENERATIONS = {"v2": 2, "v3": 2, "v4": 3, "v5e": 2, "v5p": 3, "v6e": 2, "tpu7x": 3}
"""The generations, and in how many directions their chips are linked."""

_NAME = re.compile(r"([a-z0-9]+):([0-9x]+)")
_MOST_CHIPS = 1 << 16


def check(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a topology's name or options that the library does not survive.

    The name is ``generation:XxY`` or ``generation:XxYxZ``; empty where the options or the machine
    say it.
    """
    if name:
        _check_name(name)
    for option in ("chips_per_host_bounds", "wrap"):
        values = options.get(option)
        least = 1 if option == "chips_per_host_bounds" else 0
        if values is not None and (
            not 1 <= len(values) <= 4
            or any(not isinstance(v, int) or v < least or v > 4096 for v in values)
        ):
            msg = f"topology option {option} must be 1 to 4 ints from {least}, not {values!r}."
            raise InvalidArgumentError(msg, option=option)
    slices = options.get("num_slices", 1)
    if not 1 <= slices <= 4096:
        msg = f"topology option num_slices must be from 1 to 4096, not {slices!r}."
        raise InvalidArgumentError(msg, option="num_slices")


def _check_name(name: str) -> None:
    match = _NAME.fullmatch(name)
    form = "GENERATION:XxY or GENERATION:XxYxZ, such as v5e:4x4"
    if match is None:
        msg = f"the TPU topology {name!r} has no valid name: write {form}."
        raise InvalidArgumentError(msg, topology=name)
    generation, shape = match.groups()
    if generation not in GENERATIONS:
        known = ", ".join(GENERATIONS)
        msg = f"there is no TPU generation {generation!r} in {name!r}; generations: {known}."
        raise InvalidArgumentError(msg, topology=name)
    sizes = shape.split("x")
    if not all(sizes) or len(sizes) not in (2, 3):
        msg = f"the TPU topology {name!r} has no valid shape: write {form}."
        raise InvalidArgumentError(msg, topology=name)
    numbers = [int(size[:9]) for size in sizes]
    if min(numbers) < 1 or prod(numbers) > _MOST_CHIPS:
        msg = (
            f"the TPU topology {name!r} has {prod(numbers)} chips; every dimension must be at "
            f"least 1, and all together at most {_MOST_CHIPS}."
        )
        raise InvalidArgumentError(msg, topology=name)
