"""Executables that take and give arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.arrays import Array
from devrt.arrays.dispatch_key import key_with
from devrt.errors import DeletedError, UnimplementedError
from devrt.programs.chosen_shardings import mesh_of, named_sharding
from devrt.programs.parameter import Parameter, formats_of, order_of
from devrt.programs.signature import Signature
from devrt.runtime.plugin_errors import check_count, raise_named
from devrt.sharding import Drawn, Mesh, Sharding, shards_html, single_device_sharding
from devrt.tracing.aval import shaped

if TYPE_CHECKING:
    from devrt.contract import Buffer, Device, LoadedExecutable
    from devrt.layout import Format

__all__ = ["ArrayProgram"]

_LONGEST = 60  # characters of a tree in a repr


class ArrayProgram:
    """A loaded executable as a function of arrays.

    Parameters
    ----------
    executable
        The executable; stays usable by itself.
    mesh
        The mesh over its devices that shardings are named by; None for a program on one device.
    signature
        The trees that it takes and gives; None for arrays by position and a list of arrays.
    first
        Values of its first parameters, which no call passes: weights.
    devices
        Where it runs, one for each partition; None for this process's devices of it.

    Attributes
    ----------
    executable : LoadedExecutable
    mesh : Mesh or None
    in_shardings, out_shardings : tuple of Sharding
        How the program takes and gives each array, as its compiler decided.
    in_avals, out_avals : tuple of (shape, dtype)
        Global shape and dtype of each argument and each result.
    in_names : tuple of str
        What errors call each argument: ``0``, ``0['w1']``, ``scale``.
    in_tree, out_tree : tree or None
        What an exported function takes, as (positional arguments, those by name), and what it
        gives: a plain ``*`` is one array. None for a program by itself, which gives a list.
    """

    def __init__(
        self,
        executable: LoadedExecutable,
        mesh: Mesh | None = None,
        signature: Signature | None = None,
        first: Sequence[Any] = (),
        devices: Sequence[Device] | None = None,
    ) -> None:
        if executable.num_replicas != 1:
            msg = f"'{executable.name}' has replicas, which no mesh names: use execute_sharded."
            raise UnimplementedError(msg, operation="load_program")
        self.executable = executable
        self._local = tuple(executable.local_devices())
        self._devices = self._local if devices is None else tuple(devices)
        if mesh is None and len(self._devices) > 1:
            mesh = mesh_of([("devices", len(self._devices))], self._devices)
        self.mesh = mesh
        self._signature = signature or Signature(executable.name)
        exported = self._signature.exported
        self.in_tree = None if exported is None else exported.in_tree
        self.out_tree = None if exported is None else exported.out_tree
        self._single_sharding = single_device_sharding(self._local[0])
        parameters = self._described(len(first))
        bound = zip(parameters, first, strict=False)
        self._first = [list(parameter.shards(value)) for parameter, value in bound]
        self._parameters = parameters[len(first) :]
        self._load_on: Callable[[Device], ArrayProgram] | None = None
        self._elsewhere: dict[Device, ArrayProgram] = {}
        self._knows_layouts = False
        self._prepare()

    def follow(self, load_on: Callable[[Device], ArrayProgram]) -> None:
        """Run where committed arguments lie: on another device what ``load_on`` makes for it."""
        self._load_on = load_on

    def _described(self, bound: int) -> list[Parameter]:
        """Set what it takes and gives, and return its parameters; the first ones are bound."""
        executable, signature = self.executable, self._signature
        inputs = executable.get_parameter_shardings()
        outputs = executable.get_output_shardings()
        known: dict[Sharding, Sharding] = {}  # equal ones are one object
        shardings = self._shardings(inputs, len(executable.parameters), known)
        avals = _global(executable.parameters, inputs)
        self.out_shardings = self._shardings(outputs, len(executable.outputs), known)
        self.out_avals = _global(executable.outputs, outputs)
        self.in_shardings, self.in_avals = shardings[bound:], avals[bound:]
        self.in_names = signature.names(len(self.in_avals))
        names = [*(f"constant {i}" for i in range(bound)), *self.in_names]
        return [
            Parameter(signature.name, name, shape, dtype, sharding, self._local)
            for name, (shape, dtype), sharding in zip(names, avals, shardings, strict=True)
        ]

    def _prepare(self) -> None:
        """Set what a call looks at."""
        signature, is_single = self._signature, self.mesh is None
        # Of one device an array is its one buffer, without a shape of its own.
        self._outputs = [
            (
                order_of(list(sharding.device_list.addressable_device_list), self._local),
                sharding,
                None if is_single else shape,
            )
            for sharding, (shape, _) in zip(self.out_shardings, self.out_avals, strict=True)
        ]
        self._caller: Callable[[Sequence[Any]], list[Array] | None] | None = self._made_caller()
        self._direct: Callable[[Sequence[Any]], Any] | None = None
        if signature.is_flat and (signature.exported is None or signature.gives_one):
            self._direct = self._made_caller(gives_one=signature.gives_one)

    def _made_caller(self, *, gives_one: bool = False) -> Callable[[Sequence[Any]], Any] | None:
        """Return the executable's own way to call it with arrays, if it has one for these."""
        orders = [order for order, _, _ in self._outputs]
        orders += [parameter.order for parameter in self._parameters]
        if any(order is not None for order in orders):
            return None
        gives = [
            (sharding, shape, key_with(shaped(*aval), sharding, True))
            for (_, sharding, shape), aval in zip(self._outputs, self.out_avals, strict=True)
        ]
        call = self.executable.array_caller
        return call(Array, self.in_shardings, self._first, gives, True, gives_one)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Start the program and return its results. Does not wait.

        Parameters
        ----------
        *arguments, **named
            Trees of arrays, as the function was exported with them; arrays by position where there
            is no more than the program. An array that was placed on request must lie as
            `in_shardings` says; others are moved, and values of the host are put there. If all that
            were placed on request lie on another device, a program that `load_program` placed by
            itself runs there. Python's numbers and lists of them become the dtype that the program
            takes, if it is of their kind or a wider one; NumPy's scalars are arrays.

        Returns
        -------
        tree of Array
            As the function returns it; a list of arrays where there is no more than the program.
            With `out_shardings`, committed.

        Raises
        ------
        InvalidArgumentError
            If the tree, or number, shape, dtype or placement of an argument does not fit.
        DeletedError
            If an argument was deleted or donated.
        """
        # The common case, first: arrays that lie where one device's program takes them.
        if self._direct is not None and not named:
            try:
                found = self._direct(arguments)
            except Exception as error:  # noqa: BLE001  plugin code
                self._raise(error, arguments, "array_caller")
            if found is not None:
                return found
        leaves = self._signature.leaves(arguments, named)
        made = self._called(leaves)
        if made is None:
            there = self._program_for(leaves)
            made = None if there is self else there._called(leaves)
            made = there.call_flat(leaves) if made is None else made
        return self._signature.result(made)

    def _program_for(self, leaves: Sequence[Any]) -> ArrayProgram:
        """Return the program where the leaves of a call were placed on request, if on one."""
        if self._load_on is None:
            return self
        arrays = [leaf for leaf in leaves if type(leaf) is Array and leaf.committed]
        devices = {device for array in arrays for device in array.devices()}
        (device,) = devices if len(devices) == 1 else self._devices
        if device is self._devices[0] or device.client is not self.executable.client:
            return self
        if device not in self._elsewhere:
            self._elsewhere[device] = self._load_on(device)
        return self._elsewhere[device]

    def _called(self, leaves: Sequence[Any]) -> list[Array] | None:
        """Return the results of a call as the executable makes it; None where it makes none."""
        if self._caller is None:
            return None
        try:
            return self._caller(leaves)
        except Exception as error:  # noqa: BLE001  plugin code
            self._raise(error, leaves, "array_caller")

    def call_flat(self, arguments: Sequence[Any]) -> list[Array]:
        """Call the program with the leaves of its arguments; return the leaves of its results.

        Parameters
        ----------
        arguments
            In the order of `in_avals`.
        """
        if len(arguments) != len(self._parameters):
            raise self._signature.wrong_count(len(self._parameters), len(arguments))
        rows: list[Sequence[Buffer]] = [*self._first]
        for parameter, argument in zip(self._parameters, arguments, strict=True):
            rows.append(parameter.shards(argument))
        try:
            results = self.executable.execute_sharded(rows)
        except Exception as error:  # noqa: BLE001  plugin code
            if not self._learns_layouts(error):
                self._raise(error, arguments, "execute_sharded")
            return self.call_flat(arguments)
        return self._arrays(results)

    def _learns_layouts(self, error: Exception) -> bool:
        """Let values be put in the program's layouts, once it refused one; True at the first time.

        Few programs take other layouts than row-major, and to ask each would cost all of them.
        """
        if self._knows_layouts or "layout" not in getattr(error, "data", {}):
            return False
        self._knows_layouts = True
        for parameter, format in zip(self._parameters, self.input_formats, strict=True):
            parameter.put_on(format)
        return True

    def _raise(self, error: Exception, arguments: Sequence[Any], operation: str) -> NoReturn:
        """Raise what a call raised; the error for an array that is gone says which one it is."""
        if isinstance(error, DeletedError):
            for name, argument in zip(self.in_names, arguments, strict=False):
                if type(argument) is Array and argument.is_deleted():
                    msg = (
                        f"argument {name} of program '{self._signature.name}', an array of shape "
                        f"{argument.shape}, was deleted, or donated to an earlier call. Use what "
                        "that call returned, or pass a clone() to it."
                    )
                    raise DeletedError(msg, operation="execute") from error
        raise_named(error, self.executable.client, operation)

    def _arrays(self, results: Sequence[Sequence[Buffer]]) -> list[Array]:
        """Return the arrays of results, given as one buffer for each device."""
        check_count(results, len(self._outputs), self.executable.client, "execute")
        return [
            Array(shards if order is None else [shards[i] for i in order], sharding, shape)
            for shards, (order, sharding, shape) in zip(results, self._outputs, strict=True)
        ]

    @property
    def input_formats(self) -> tuple[Format, ...]:
        """The sharding of each argument and the layout of its shards: `device_put` takes it."""
        layouts = self.executable.get_parameter_layouts()[len(self._first) :]
        return formats_of(layouts, self.in_shardings)

    @property
    def output_formats(self) -> tuple[Format, ...]:
        """The sharding of each result and the layout of its shards."""
        return formats_of(self.executable.get_output_layouts(), self.out_shardings)

    def _repr_html_(self) -> str:
        """Draw, in a notebook, where each shard of the arguments and results lies."""
        takes = zip(self.in_names, self.in_avals, self.in_shardings, strict=True)
        gives = enumerate(zip(self.out_avals, self.out_shardings, strict=True))
        return shards_html(
            [
                *(Drawn(name, str(dtype), shape, s) for name, (shape, dtype), s in takes),
                *(Drawn(f"result {i}", str(dtype), shape, s) for i, ((shape, dtype), s) in gives),
            ]
        )

    def __repr__(self) -> str:
        flat = f"[{', '.join('*' * len(self.out_avals))}]"
        gives = flat if self.out_tree is None else str(self.out_tree)
        gives = gives if len(gives) <= _LONGEST else f"{gives[:_LONGEST]}..."
        return f"ArrayProgram({self._signature.name}, devices={len(self._devices)}, gives={gives})"

    def _shardings(
        self, shardings: Sequence[Any], count: int, known: dict[Sharding, Sharding]
    ) -> tuple[Sharding, ...]:
        if self.mesh is None:
            return (self._single_sharding,) * count
        if not shardings:
            msg = f"program '{self.executable.name}' does not say how it is divided."
            raise UnimplementedError(msg, operation="load_program")
        named = [named_sharding(one, self.mesh, self._devices) for one in shardings]
        return tuple(known.setdefault(one, one) for one in named)


def _global(specs: Any, shardings: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Return global shapes and dtypes: those of one shard times the number of tiles."""
    if not shardings:
        return tuple((tuple(shape), dtype) for shape, dtype in specs)
    pairs = zip(specs, shardings, strict=True)
    return tuple((sharding.global_shape(shape), dtype) for (shape, dtype), sharding in pairs)
