"""Kernels of one's own that programs call: what a call says, and calls from traced functions.

A program calls a kernel by the custom call ``devrt_kernel``, whose attributes say which one it is,
how it is launched, and what its parameters are; ``src/execution/kernel_calls.cpp`` reads them. A
kernel is named by what it was compiled to, so that programs may be kept in the
disk cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devrt._support.record import record

__all__ = ["KERNEL_TARGET", "KernelCall", "traced_call"]

KERNEL_TARGET = "devrt_kernel"
"""What the custom call names."""

_OPERAND, _RESULT = -1, -2  # among ``parameters``; a number is there by its bytes


@record(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """How a program calls a kernel: a custom call, by XLA's FFI.

    Attributes
    ----------
    target : str
        What the custom call names.
    attributes : Mapping
        Its attributes by name, as ``jax.ffi.ffi_call`` takes them too.
    """

    target: str
    attributes: Mapping[str, Any]

    @property
    def backend_config(self) -> str:
        """The attributes as StableHLO has them, for a call of ``api_version`` 4."""
        shown = (f"{name} = {_text(value)}" for name, value in self.attributes.items())
        return f"{{{', '.join(shown)}}}"

    @classmethod
    def of(
        cls,
        key: str,
        parameters: Sequence[Any],
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
    ) -> KernelCall:
        """Return the call of a kernel.

        Parameters
        ----------
        key
            By which it was provided.
        parameters
            For each the bytes of a number; a pair of dtype and shape for a result; anything else
            is an operand.
        grid, block, shared_bytes
            How it is launched.
        """
        attributes = {
            "kernel": key,
            "grid": np.array(grid, np.int64),
            "block": np.array(block, np.int64),
            "shared_bytes": np.int64(shared_bytes),
            "parameters": np.array([_code(each) for each in parameters], np.int64),
        }
        numbers = b"".join(each for each in parameters if isinstance(each, bytes))
        if numbers:
            attributes["scalars"] = np.frombuffer(numbers, np.int8)
        return cls(target=KERNEL_TARGET, attributes=attributes)


def traced_call(call: KernelCall, parameters: Sequence[Any]) -> tuple[Any, ...]:
    """Add a call to the trace of this thread, and return its results."""
    from devrt import dtypes
    from devrt.tracing import Literal, as_value, emit, shaped

    made = [each for each in parameters if isinstance(each, tuple)]
    operands = [as_value(each) for each in parameters if not isinstance(each, tuple | bytes)]
    results = [shaped(shape, dtypes.to_numpy(dtypes.code_of(dtype))) for dtype, shape in made]
    attributes = {
        "call_target_name": call.target,
        "api_version": Literal("4 : i32"),
        "backend_config": Literal(call.backend_config),
        # Without layouts the compiler chooses some, and a kernel is written for row-major arrays.
        "operand_layouts": Literal(_row_major(each.aval.shape for each in operands)),
        "result_layouts": Literal(_row_major(each.shape for each in results)),
    }
    return tuple(emit("stablehlo.custom_call", operands, results, attributes))


def _code(parameter: Any) -> int:
    if isinstance(parameter, bytes):
        return len(parameter)
    return _RESULT if isinstance(parameter, tuple) else _OPERAND


def _text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'  # of letters, digits and what names of C++ have
    kind = f"i{8 * value.dtype.itemsize}"
    return f"array<{kind}: {', '.join(map(str, value))}>" if value.ndim else f"{value} : {kind}"


def _row_major(shapes: Any) -> str:
    orders = (list(range(len(shape)))[::-1] for shape in shapes)
    shown = (f"dense<{order or ''}> : tensor<{len(order)}xindex>" for order in orders)
    return f"[{', '.join(shown)}]"
