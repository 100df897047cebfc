"""Executables that take and give arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.arrays import Array, device_put
from devrt.compiling import Program
from devrt.contract import Client, Device
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs.chosen_shardings import mesh_of, named_sharding
from devrt.runtime.plugin_errors import check_count, raise_named
from devrt.sharding import Mesh, Sharding, SingleDeviceSharding

if TYPE_CHECKING:
    from devrt.contract import Buffer, LoadedExecutable

__all__ = ["ArrayProgram", "load_program"]


def load_program(
    program: str | bytes,
    client: Client | None = None,
    devices: Sequence[Device] | None = None,
    mesh: Mesh | None = None,
    **options: Any,
) -> ArrayProgram:
    """Compile a StableHLO program into a function of arrays.

    Parameters
    ----------
    program
        StableHLO as text or as portable bytecode.
    client
        The client; None for the one of ``devices``, of ``mesh``, or of the default device.
    devices
        Where it runs; None for the mesh's devices, or for as many as the program needs.
    mesh
        The mesh that names how arguments and results are divided; None for the one that the
        program declares, over its devices.
    **options
        Compile options, as `Client.compile_and_load` takes them.

    Returns
    -------
    ArrayProgram
        The program. Does not run it.

    Raises
    ------
    InvalidTypeError
        If the program is neither text nor bytes, or a target is of another type.
    InvalidArgumentError
        If the program, an option, a device or the mesh does not fit.
    """
    code = _code(program)
    _check_target(client, devices, mesh)
    if mesh is not None and devices is None:
        devices = list(mesh.device_list)
    if client is None:
        client = devices[0].client if devices else _default_client()
    executable = client.compile_and_load(code, devices, **options)
    return ArrayProgram(executable, mesh or _declared_mesh(code, executable))


def _check_target(client: Any, devices: Any, mesh: Any) -> None:
    """Refuse what no program can run on."""
    for name, value, kind in (("client", client, Client), ("mesh", mesh, Mesh)):
        if value is not None and not isinstance(value, kind):
            what = f"a devrt {kind.__name__} or None"
            msg = f"{name} must be {what}, not of type {type(value).__name__}."
            raise InvalidTypeError(msg, operation="load_program")
    is_list = devices is None or isinstance(devices, Sequence)
    strange = [d for d in devices or () if not isinstance(d, Device)] if is_list else [devices]
    if strange:
        msg = f"devices must be a sequence of devices, not of type {type(strange[0]).__name__}."
        if is_list:
            msg = f"devices must hold devices, and one is of type {type(strange[0]).__name__}."
        raise InvalidTypeError(msg, operation="load_program")


def _code(program: Any) -> Program:
    is_name = isinstance(program, str) and program.endswith((".mlir", ".mlirbc"))
    if is_name or isinstance(program, os.PathLike):
        file = f"Path({str(program)!r})"
        msg = f"a program is given itself, not as its file: pass {file}.read_bytes()."
        error = InvalidArgumentError if is_name else InvalidTypeError
        raise error(msg, operation="load_program")
    return Program.of(program, "load_program")


def _default_client() -> Client:
    from devrt.runtime import devices

    return devices()[0].client


def _declared_mesh(program: Program, executable: LoadedExecutable) -> Mesh | None:
    """Return the program's own mesh; where it declares none, one axis over all its devices."""
    devices = executable.local_devices()
    if len(devices) == 1:
        return None
    sizes = [mesh for mesh in program.facts.meshes if _size(mesh) == len(devices)]
    return mesh_of(sizes[0] if sizes else [("devices", len(devices))], devices)


def _size(axes: Sequence[tuple[str, int]]) -> int:
    return int(np.prod([size for _, size in axes]))


class ArrayProgram:
    """A loaded executable as a function of arrays.

    Parameters
    ----------
    executable
        The executable; stays usable by itself.
    mesh
        The mesh over its devices that shardings are named by; None for a program on one device.

    Attributes
    ----------
    executable : LoadedExecutable
    mesh : Mesh or None
    in_shardings, out_shardings : tuple of Sharding
        How the program takes and gives each array, as its compiler decided.
    in_avals, out_avals : tuple of (shape, dtype)
        Global shape and dtype of each argument and each result.
    """

    def __init__(self, executable: LoadedExecutable, mesh: Mesh | None = None) -> None:
        if executable.num_replicas != 1:
            msg = f"'{executable.name}' has replicas, which no mesh names: use execute_sharded."
            raise UnimplementedError(msg, operation="load_program")
        self.executable = executable
        self.mesh = mesh
        self._devices = tuple(executable.local_devices())
        inputs, outputs = (
            executable.get_parameter_shardings(),
            executable.get_output_shardings(),
        )
        self.in_shardings = self._shardings(inputs, len(executable.parameters))
        self.out_shardings = self._shardings(outputs, len(executable.outputs))
        self.in_avals = _global(executable.parameters, inputs)
        self.out_avals = _global(executable.outputs, outputs)
        self._out_order = [self._order(sharding) for sharding in self.out_shardings]

    def __call__(self, *arguments: Any) -> list[Array]:
        """Start the program and return its results. Does not wait.

        Parameters
        ----------
        *arguments
            Arrays, or values of the host, which are put where the program takes them. An array
            that was placed on request must lie as `in_shardings` says; others are moved.

        Returns
        -------
        list of Array
            With `out_shardings`, committed.

        Raises
        ------
        InvalidArgumentError
            If number, shape, dtype or placement of an argument does not fit.
        DeletedError
            If an argument was deleted or donated.
        """
        if len(arguments) != len(self.in_avals):
            msg = (
                f"program '{self.executable.name}' takes {len(self.in_avals)} arguments, and "
                f"{len(arguments)} were given."
            )
            raise InvalidArgumentError(msg, operation="execute")
        rows = [self._shards(i, argument) for i, argument in enumerate(arguments)]
        try:
            results = self.executable.execute_sharded(rows)
        except Exception as error:  # noqa: BLE001  plugin code
            raise_named(error, self.executable.client, "execute_sharded")
        check_count(results, len(self._out_order), self.executable.client, "execute_sharded")
        return [
            Array([shards[index] for index in order], sharding, shape, True)
            for shards, order, sharding, (shape, _) in zip(
                results, self._out_order, self.out_shardings, self.out_avals, strict=True
            )
        ]

    def __repr__(self) -> str:
        return f"ArrayProgram({self.executable.name}, devices={len(self._devices)})"

    def _shardings(self, shardings: Sequence[Any], count: int) -> tuple[Sharding, ...]:
        if self.mesh is None:
            return (SingleDeviceSharding(self._devices[0]),) * count
        if not shardings:
            msg = f"program '{self.executable.name}' does not say how it is divided."
            raise UnimplementedError(msg, operation="load_program")
        return tuple(named_sharding(one, self.mesh, self._devices) for one in shardings)

    def _order(self, sharding: Sharding) -> list[int]:
        """Return, for each device of a sharding in its own order, which partition runs there."""
        return [self._devices.index(device) for device in sharding.device_list]

    def _shards(self, index: int, argument: Any) -> list[Buffer]:
        shape, dtype = self.in_avals[index]
        if not isinstance(argument, Array):
            argument = np.asarray(argument)
        if tuple(argument.shape) != shape or argument.dtype != dtype:
            msg = (
                f"argument {index} of program '{self.executable.name}' is "
                f"{argument.dtype}{list(argument.shape)} and must be {dtype}{list(shape)}."
            )
            raise InvalidArgumentError(msg, operation="execute", shape=tuple(argument.shape))
        placed = self._placed(index, argument)
        buffers = {buffer.device: buffer for buffer in placed._buffers}
        return [buffers[device] for device in self._devices]

    def _placed(self, index: int, argument: Any) -> Array:
        wanted = self.in_shardings[index]
        if not isinstance(argument, Array):
            made: Array = device_put(argument, wanted)
            return made
        if argument.sharding is wanted or wanted.is_equivalent_to(argument.sharding, argument.ndim):
            return argument
        if argument.committed:
            msg = (
                f"argument {index} of program '{self.executable.name}' lies as "
                f"{argument.sharding}, and must lie as {wanted}. Move it with device_put."
            )
            raise InvalidArgumentError(msg, operation="execute")
        moved: Array = device_put(argument, wanted)
        return moved


def _global(specs: Any, shardings: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Return global shapes and dtypes: those of one shard times the number of tiles."""
    if not shardings:
        return tuple((tuple(shape), dtype) for shape, dtype in specs)
    pairs = zip(specs, shardings, strict=True)
    return tuple((sharding.global_shape(shape), dtype) for (shape, dtype), sharding in pairs)
