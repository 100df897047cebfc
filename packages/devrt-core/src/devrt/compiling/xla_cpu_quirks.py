"""The quirks of XLA's compiler for the CPU as a PJRT plugin, for each client that loads it."""

from __future__ import annotations

from devrt.compiling.quirks import Quirk

__all__ = ["DISTRIBUTION", "QUIRKS"]

DISTRIBUTION = "xla-cpu-pjrt"
_SEEN = (0, 0, 1)

QUIRKS = (
    Quirk(
        DISTRIBUTION,
        first=_SEEN,
        last=_SEEN,
        effect="ends the process over bitcast_convert of booleans",
        case="bitcast_of_booleans",
        subject="bitcast_of_booleans",
    ),
    Quirk(
        DISTRIBUTION,
        first=_SEEN,
        last=_SEEN,
        effect="ends the process over quantised types",
        case="quantised_types",
        subject="quantised_types",
    ),
    Quirk(
        DISTRIBUTION,
        first=_SEEN,
        last=_SEEN,
        effect="ends the process over all_to_all without replica_groups",
        case="all_to_all_without_groups",
        subject="all_to_all_without_groups",
    ),
    Quirk(
        DISTRIBUTION,
        first=_SEEN,
        last=_SEEN,
        effect=(
            "keeps what it packed of a product's right operand, and takes that in the next call "
            "for any operand at the same address"
        ),
        case="product_of_a_new_operand",
        flags={"xla_cpu_use_xnnpack": False},
    ),
    Quirk(
        DISTRIBUTION,
        first=_SEEN,
        last=_SEEN,
        effect="lets maximum and minimum lose a NaN, against StableHLO's definition",
        case="maximum_with_a_nan",
        flags={"xla_cpu_enable_fast_min_max": False},
    ),
)
