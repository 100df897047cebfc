"""By which names programs call functions of devrt's own: each kind of client has names of its own.

XLA has one table of names for each library and process, and the first function of a name stays. Two
kinds of clients may share a library, as the CPU's and that of simulated devices do: the calls of
one would come to the other's, which does not know its executions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devrt.contract import Client

__all__ = ["answered"]


def answered(
    text: str, client: Client, target: str, function: Callable[..., Any], kind: str = "host"
) -> str:
    """Let the calls of a target in a program's text reach a function.

    Parameters
    ----------
    text, target
        The program, and what its calls name in quotes.
    client
        That will compile it.
    function, kind
        See `devrt.contract.Client.register_custom_call`.

    Returns
    -------
    str
        The program with the client's own name of the target.

    Raises
    ------
    UnimplementedError
        If the client takes no custom calls.
    """
    name = f"{target}.{type(client).__module__.partition('.')[0]}"
    client.register_custom_call(name, function, kind=kind)
    return text.replace(f'"{target}"', f'"{name}"')
