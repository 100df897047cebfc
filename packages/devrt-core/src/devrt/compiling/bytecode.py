"""A StableHLO program in MLIR's bytecode: what devrt reads of it, in one pass.

Portable bytecode has the operations of VHLO, StableHLO's versioned form; MLIR's plain bytecode
those of StableHLO itself. What an operation says of itself are its properties: numbers of
attributes in the order of the properties' names.
"""

from __future__ import annotations

import contextlib
import re

from devrt.compiling.mlir_bytecode import UNREADABLE, Bytecode
from devrt.compiling.mlir_walk import UNKNOWN, Operation, Walk
from devrt.compiling.program_facts import DONATES, STRUCTURE, Function, ProgramFacts

__all__ = ["read_bytecode"]

_VERSION = re.compile(r"_v\d+$")
_FEEDS = {f"{dialect}.{name}feed" for dialect in ("stablehlo", "mhlo") for name in ("in", "out")}
# Which of an operation's properties it is; older bytecode has them by name among the attributes.
_FUNCTIONS = {"vhlo.func_v1": 3, "func.func": 4}
_NAME, _ATTRIBUTES, _TYPE = b"sym_name", (0, b"arg_attrs"), (1, b"function_type")
_CALLEES = {
    "vhlo.call_v1": (0, b"callee"),
    "func.call": (1, b"callee"),
    "vhlo.composite_v1": (1, b"decomposition"),
    "vhlo.composite_v2": (1, b"decomposition"),
    "vhlo.custom_call_v1": (3, b"called_computations"),
}
_CUSTOM_CALLS = {"vhlo.custom_call_v1", "stablehlo.custom_call"}
_TARGET = 2, b"call_target_name"
_BITCASTS = {"vhlo.bitcast_convert_v1", "stablehlo.bitcast_convert"}
_ALL_TO_ALLS = {"vhlo.all_to_all_v1", "vhlo.all_to_all_v2", "stablehlo.all_to_all"}
_GROUPS = 2, b"replica_groups"
_REPLICAS, _PARTITIONS = b"mhlo.num_replicas", b"mhlo.num_partitions"


def read_bytecode(code: bytes) -> ProgramFacts:
    """Read a program's bytecode; what cannot be read has no facts."""
    facts = ProgramFacts(is_whole=False)
    with contextlib.suppress(*UNREADABLE):
        bytecode = Bytecode(code)
        _read_tables(bytecode, facts)
        walk = _Walk(bytecode)
        walk.run()
        facts.functions = walk.functions
        walk.read_signature(facts.main)
        facts.custom_calls = {text.decode(errors="replace") for text in walk.targets}
        for subject, is_there in (
            ("bitcast_of_booleans", any(map(bytecode.is_boolean, walk.cast))),
            ("quantised_types", bytecode.has_quantised()),
            ("all_to_all_without_groups", any(map(bytecode.is_empty, walk.groups - {UNKNOWN}))),
        ):
            if is_there:
                facts.first[subject] = 0
        facts.is_whole = True
    return facts


def _read_tables(bytecode: Bytecode, facts: ProgramFacts) -> None:
    """Read what the tables tell, without the operations that refer to them."""
    names = {_VERSION.sub("", name.replace("vhlo.", "stablehlo.")) for name in bytecode.names}
    plain = {name for name in names if name.startswith(("stablehlo.", "chlo."))}
    facts.operations = plain - STRUCTURE
    facts.feed = min(((name, 0) for name in names & _FEEDS), default=None)
    numbers = bytecode.integers({_REPLICAS, _PARTITIONS})
    facts.num_replicas, facts.num_partitions = numbers.get(_REPLICAS), numbers.get(_PARTITIONS)
    facts.has_shardy = any(text.startswith(b"xla.sdy.") for text in bytecode.strings)
    facts.keep_meshes(bytecode.meshes())


class _Walk(Walk):
    """The operations of a program, with the functions that they are in."""

    def __init__(self, bytecode: Bytecode) -> None:
        super().__init__(bytecode)
        self.functions: list[Function] = []
        self.targets: set[bytes] = set()  # of custom calls
        self.cast: set[int] = set()  # types that a bitcast_convert takes or makes
        self.groups: set[int] = set()  # attributes: the replica groups of all_to_all
        self._mains: list[tuple[Function, Operation]] = []
        self._inside: list[tuple[int, Function | None]] = [(0, None)]
        self._modules = 0

    def enter(self, operation: Operation) -> None:
        module, function = self._inside[-1]
        name = operation.name
        if name in _FUNCTIONS:
            function = self._function(operation, module)
        elif name == "builtin.module":
            self._modules += 1
            module, function = self._modules, None
        elif name in _CALLEES and function is not None:
            function.calls.update(self._texts(operation, *_CALLEES[name]))
        if name in _CUSTOM_CALLS:
            self.targets.update(self._texts(operation, *_TARGET))
        elif name in _BITCASTS:
            self.cast.update(operation.results, operation.operands)
        elif name in _ALL_TO_ALLS:
            self.groups.add(self._property(operation, *_GROUPS))
        self._inside.append((module, function))

    def leave(self) -> None:
        self._inside.pop()

    def enter_block(self) -> None:
        function = self._inside[-1][1]
        if function is not None:
            function.has_body = True

    def _function(self, operation: Operation, module: int) -> Function:
        found = self._texts(operation, _FUNCTIONS[operation.name], _NAME)
        function = Function(found[0] if found else b"", module=module)
        if function.name:
            self.functions.append(function)
        if function.name == b"main":
            self._mains.append((function, operation))
        return function

    def read_signature(self, main: Function | None) -> None:
        """Read what the function that runs takes and gives; of others with its name nothing."""
        for function, operation in self._mains:
            if function is main:
                self._read_signature(operation, function)

    def _read_signature(self, operation: Operation, function: Function) -> None:
        attributes = self._property(operation, *_ATTRIBUTES)
        if operation.name == "func.func" and operation.properties >= 0:  # where it may be missing
            attributes = attributes >> 1 if attributes & 1 else UNKNOWN
        found = self.bytecode.dictionaries(attributes) if attributes >= 0 else []
        is_donated = (any(name in each for name in DONATES) for each in found)
        function.donated = tuple(i for i, is_taken in enumerate(is_donated) if is_taken)
        kind = self._property(operation, *_TYPE)
        function.has_tuples = self.bytecode.has_tuples(kind)
        function.symbolic = self.bytecode.symbolic(kind)

    def _texts(self, operation: Operation, which: int, name: bytes) -> list[bytes]:
        number = self._property(operation, which, name)
        return self.bytecode.texts(number) if number >= 0 else []

    def _property(self, operation: Operation, which: int, name: bytes) -> int:
        if operation.properties >= 0:
            return self.bytecode.property(operation.properties, which)
        if operation.attributes >= 0:
            return self.bytecode.items(operation.attributes).get(name, UNKNOWN)
        return UNKNOWN
