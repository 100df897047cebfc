"""The quirks of XLA's compilers for the CPU as PJRT plugins, for each client that loads one."""

from __future__ import annotations

from collections.abc import Mapping

from devrt.compiling.quirks import Flag, Quirk
from devrt.compiling.xla_cpu_engines import engine_named

__all__ = ["QUIRKS"]


def _seen(
    wheels: tuple[str, ...],
    effect: str,
    case: str,
    subject: str = "",
    flags: Mapping[str, Flag] | None = None,
    operations: frozenset[str] = frozenset(),
    is_avoided: bool = False,
) -> tuple[Quirk, ...]:
    """Return a defect's rows, one for each wheel, of the version that its engine's row is of."""
    engines = [engine for wheel in wheels if (engine := engine_named(wheel)) is not None]
    return tuple(
        Quirk(
            e.wheel,
            e.version,
            e.version,
            effect,
            case,
            subject,
            flags or {},
            operations,
            is_avoided,
        )
        for e in engines
    )


_OLDEST = "xla-cpu-pjrt"
_NEWEST = "lammps-jax-pjrt-cpu"
_ALL = (_OLDEST, "fastatomstruct-xla-cpu", _NEWEST)

# What an arctangent is made of: of complex numbers, the logarithm is.
_ARCTANGENTS = frozenset(
    {"stablehlo.atan2", "stablehlo.complex"}
    | {f"chlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")}
)

QUIRKS = (
    *_seen(
        (_OLDEST,),
        "ends the process over bitcast_convert of booleans",
        case="bitcast_of_booleans",
        subject="bitcast_of_booleans",
    ),
    *_seen(
        _ALL[1:],
        "takes the booleans of a bitcast_convert as bytes, and gives a result of another shape",
        case="bitcast_of_booleans",
        subject="bitcast_of_booleans",
    ),
    *_seen(
        _ALL,
        "ends the process over quantised types",
        case="quantised_types",
        subject="quantised_types",
    ),
    *_seen(
        _ALL[:2],
        "ends the process over all_to_all without replica_groups",
        case="all_to_all_without_groups",
        subject="all_to_all_without_groups",
    ),
    *_seen(
        (_OLDEST,),
        "keeps what it packed of a product's right operand, and takes that in the next call "
        "for any operand at the same address",
        case="product_of_a_new_operand",
        flags={"xla_cpu_use_xnnpack": False},
    ),
    *_seen(
        _ALL,
        "lets maximum and minimum lose a NaN, against StableHLO's definition",
        case="maximum_with_a_nan",
        flags={"xla_cpu_enable_fast_min_max": False},
    ),
    *_seen(
        _ALL[1:],
        "has no cost analysis of a program",
        case="cost_of_a_program",
        is_avoided=True,
    ),
    *_seen(
        (_NEWEST,),
        "computes wrong arctangents of float64 in vectors of more than 128 bits",
        case="arctangent_of_doubles",
        flags={"xla_cpu_prefer_vector_width": 128},
        operations=_ARCTANGENTS,
    ),
    *_seen(
        (_NEWEST,),
        "hangs where several Fourier transforms wait for its threads",
        case="transforms_side_by_side",
        flags={"xla_cpu_multi_thread_eigen": False},
        operations=frozenset({"stablehlo.fft"}),
    ),
    *_seen(
        (_NEWEST,),
        "ends the process over constants of six-bit floats",
        case="constant_of_six_bits",
        is_avoided=True,
    ),
)
