"""The classes of a backend's native module, made those of the contract."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devrt.errors import PluginContractError

if TYPE_CHECKING:
    from devrt.contract import Capabilities

    _Client = Any

__all__ = ["register"]

_STANDING_FOR = ("_Client", "_Device", "_LoadedExecutable")


@functools.cache
def register(
    module: str,
    prefix: str,
    *,
    engine: str = "",
    capabilities: Callable[[Any], Capabilities] | None = None,
) -> Any:
    """Load a native module and make its classes those of `devrt.contract`, once.

    Parameters
    ----------
    module
        The module that ``devrt_add_backend_module`` built (``"devrt_acme._ext"``).
    prefix
        Its ``CLASS_PREFIX``.
    engine
        Where the backend's `devrt.native.engine.Engine` is (``"devrt_acme.compiler:ENGINE"``),
        imported when a program is first compiled. Empty for a backend that compiles nothing.
    capabilities
        Returns `devrt.contract.Client.capabilities` of a client. None for what can be seen of it,
        and what the native client does on any device: asynchronous transfers and layouts.

    Returns
    -------
    module
        The native module.

    Raises
    ------
    PluginContractError
        If it has no classes of its own; says which module is built wrongly.
    """
    from devrt import contract
    from devrt.native import engines

    native: Any = importlib.import_module(module)
    client = getattr(native, f"{prefix}Client", None)
    if client is None:
        from devrt.native.domains import classless  # only where something is wrong

        raise PluginContractError(classless(module, prefix), phase="load", module=module)
    _add_methods(native, prefix, compiles=bool(engine))
    client.capabilities = property(_of_module(capabilities or _capabilities, module, prefix))
    client.program_formats = property(_of_module(program_formats, module, prefix))
    if engine:
        engines.remember_engine(client, engine)
    for name in ("Client", "Device", "Memory", "Buffer", "LoadedExecutable"):
        getattr(contract, name).register(getattr(native, prefix + name))
    # Any: register() is typed for subclasses, and this becomes one only by this call.
    token: Any = contract.ExecutionToken
    token.register(getattr(native, f"{prefix}Token"))
    return native


def _add_methods(native: Any, prefix: str, *, compiles: bool) -> None:
    from devrt.native import methods

    of_clients = methods.OF_CLIENTS if compiles else ()  # the contract's own say that it does not
    pairs = (("Client", of_clients), ("LoadedExecutable", methods.OF_EXECUTABLES))
    for kind, functions in pairs:
        for function in functions:
            made = _of_module(function, native.__name__, prefix)
            setattr(getattr(native, prefix + kind), function.__name__, made)


def _of_module(function: Callable[..., Any], module: str, prefix: str) -> Any:
    """Return a function as one of the native module, with its classes in the annotations."""
    if not isinstance(function, types.FunctionType):
        return function
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__doc__ = function.__doc__
    made.__module__ = module
    made.__qualname__ = function.__qualname__
    made.__annotations__ = {
        name: functools.reduce(
            lambda text, word: text.replace(word, prefix + word[1:]), _STANDING_FOR, given
        )
        for name, given in function.__annotations__.items()
    }
    return made


def _capabilities(self: _Client) -> Capabilities:
    """Return what can be counted on; see `devrt.contract.Capabilities`."""
    from devrt.contract import Capabilities
    from devrt.native.engines import formats_of

    return Capabilities.of(self, asynchronous=True, layouts=True, formats=formats_of(self))


def program_formats(self: _Client) -> tuple[str, ...]:
    """Return the formats that `compile_and_load` takes, here and now; none without a compiler."""
    formats: tuple[str, ...] = self.capabilities.formats
    return formats
