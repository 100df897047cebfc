"""Traced values that are to lie as a sharding says: a constraint on the program's compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt.contract import Device
from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt.sharding import NamedSharding, SingleDeviceSharding
from devrt.tracing import Value, as_value, at_user_line, axes_in, current_graph, sharding_constraint

__all__ = ["check_fits", "constrained", "put_traced"]


def put_traced(value: Value, target: Any) -> Value:
    """Return what `devrt.device_put` in a traced function gives.

    A program runs where its arguments lie, so that a device in it moves nothing, as in JAX.
    """
    if target is None or isinstance(target, Device):
        return value
    if isinstance(target, SingleDeviceSharding):
        _check_memory(target, "device_put")
        return value
    if isinstance(target, NamedSharding):
        check_fits("", value.aval.shape, target, "device_put")
        return constrained(value, target, "device_put")
    msg = (
        f"device_put got {target!r:.80} of type {type(target).__name__} for a traced "
        f"value{at_user_line()}: within a program values lie as a devrt.NamedSharding says, in the "
        "devices' default memory. Move the program's result."
    )
    raise UnimplementedError(msg, operation="device_put")


def constrained(leaf: Any, sharding: NamedSharding, what: str, path: str = "") -> Value:
    """Return a value of the trace that the compiler divides as a sharding says.

    ``what`` is the function of which errors tell.
    """
    manual = current_graph().manual_axes
    bound = [axis for axis in axes_in(sharding.spec) if axis in manual]
    if bound:
        msg = (
            f"{what}: {sharding.spec} names {', '.join(map(repr, bound))}, which "
            f"the shard_map around it binds{at_user_line()}: each device has its own part along it "
            "already. Name other axes."
        )
        raise InvalidArgumentError(msg, spec=sharding.spec)
    _check_memory(sharding, what)
    value = as_value(leaf)
    # Its dimensions need not divide: the compiler pads what stays within the program.
    _check(path, lambda: sharding.check_compatible_aval(value.aval.shape), what)
    found: Value = sharding_constraint(value, sharding.mesh, sharding.spec)
    return found


def _check_memory(sharding: NamedSharding | SingleDeviceSharding, what: str) -> None:
    """Refuse a kind of memory that values of a program cannot lie in."""
    if sharding.memory_kind != sharding.with_memory_kind(None).memory_kind:
        msg = (
            f"{what} got {sharding}{at_user_line()}: within a program all values "
            "are in the devices' default memory. Name the kind in jit's out_shardings, or move the "
            "result with devrt.device_put."
        )
        raise UnimplementedError(msg, operation=what)


def check_fits(path: str, shape: tuple[int, ...], sharding: NamedSharding, what: str) -> None:
    """Raise `InvalidArgumentError` if a sharding does not divide a value of a shape."""
    _check(path, lambda: sharding.check_compatible_aval(shape), what)
    _check(path, lambda: sharding.shard_shape(shape), what)


def _check(path: str, check: Callable[[], Any], what: str) -> None:
    try:
        check()
    except DevrtError as error:
        at = f" at {path}" if path else ""
        msg = f"{what}: the value{at} does not fit its sharding{at_user_line()}: {error.message}"
        raise InvalidArgumentError(msg, **error.data) from None
