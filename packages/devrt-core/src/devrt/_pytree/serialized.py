"""Structures of Python's containers as JAX's message ``PyTreeDefProto``.

Source: ``jaxlib/pytree.proto`` of JAX. Nodes are listed children first; keys of dicts are numbers
of texts that are listed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from devrt._pytree.node_types import LEAF, Node
from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import Message, bytes_field, int_field, packed

if TYPE_CHECKING:
    from devrt._pytree.registry import PyTreeRegistry

__all__ = ["deserialize", "serialize"]

_LEAF, _DICT = 1, 5
_NUMBERS: dict[type, int] = {list: 2, type(None): 3, tuple: 4, dict: _DICT}
_CLASSES = {number: cls for cls, number in _NUMBERS.items()}


def serialize(root: Node) -> bytes:
    """Return a structure as the message."""
    texts: dict[str, int] = {}
    nodes = [bytes_field(1, _serialize_one(node, texts)) for node in _children_first(root)]
    return b"".join(nodes) + b"".join(bytes_field(2, text.encode()) for text in texts)


def _children_first(node: Node) -> Iterator[Node]:
    for child in node[2]:
        yield from _children_first(child)
    yield node


def _serialize_one(node: Node, texts: dict[str, int]) -> bytes:
    kind, data, children, _ = node
    cls = None if kind is None else kind.public_data(data)[0]
    number = _LEAF if cls is None else _NUMBERS.get(cls)
    if number is None or (number == _DICT and not all(isinstance(key, str) for key in data)):
        msg = (
            f"User-defined nodes are not supported when serializing pytrees, nor keys of dicts "
            f"that are no text, and this one has {cls!r} with {data!r}. Pickle the "
            "structure instead."
        )
        raise InvalidArgumentError(msg)
    arity = int_field(1, len(children)) if children else b""
    keys = [texts.setdefault(key, len(texts)) for key in data] if number == _DICT else []
    return arity + int_field(2, number) + (bytes_field(3, packed(1, keys)) if keys else b"")


def deserialize(data: bytes, registry: PyTreeRegistry) -> Node:
    """Return the structure of a message.

    Raises
    ------
    InvalidArgumentError
        If the bytes are no such message.
    """
    message = Message(data)
    texts = [bytes(text).decode() for text in message.parts(2)]
    made: list[Node] = []
    for part in message.parts(1):
        _deserialize_one(Message(part), texts, made, registry)
    if len(made) != 1:
        raise _malformed(f"its nodes make {len(made)} trees")
    return made[0]


def _deserialize_one(
    message: Message, texts: list[str], made: list[Node], registry: PyTreeRegistry
) -> None:
    arity, number = message.number(1), message.number(2)
    if number == _LEAF:
        made.append(LEAF)
        return
    cls = _CLASSES.get(number)
    if cls is None or arity > len(made):
        raise _malformed(f"a node is of type {number} with {arity} children")
    children = tuple(made[len(made) - arity :])
    del made[len(made) - arity :]
    data: Any = None
    if cls is dict:
        keys = message.message(3).ints(1)
        if len(keys) != arity or any(key >= len(texts) for key in keys):
            raise _malformed("the keys of a dict are not its children's")
        data = [texts[key] for key in keys]
    made.append(registry.node(cls, data, children))


def _malformed(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Malformed pytree proto: {why}.")
