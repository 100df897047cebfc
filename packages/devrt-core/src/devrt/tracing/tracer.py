"""Values as a traced function sees them: arrays without elements."""

from __future__ import annotations

from typing import Any, NoReturn

from devrt.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from devrt.tracing.frames import at_user_line
from devrt.tracing.ir import Value
from devrt.tracing.operators import ArrayOperators

__all__ = ["Tracer"]


class Tracer(Value, ArrayOperators):
    """A value of a trace, with the operators and methods of arrays."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; in a manual computation that of one device's shard."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.aval.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def weak_type(self) -> bool:
        """Whether it gives way to another operand's dtype."""
        return self.aval.weak_type

    @property
    def sharding(self) -> NoReturn:
        """Not known while tracing: the compiler decides."""
        msg = (
            f"the sharding of a traced value is not known{at_user_line()}: the compiler decides "
            "it. Ask the result of the call, or state it with devrt.lax.with_sharding_constraint."
        )
        raise AttributeError(msg)

    def _or_static(self) -> str:
        """Return advice for arguments of jit; others cannot be static."""
        takes_static = self.graph.takes_static
        return "; or name the argument in static_argnums" if takes_static else ""

    def __len__(self) -> int:
        if not self.aval.shape:
            msg = "len() of an array without dimensions"
            raise TypeError(msg)
        return self.aval.shape[0]

    def __bool__(self) -> bool:
        msg = (
            f"a traced value of {self.aval} has no truth value yet{at_user_line()}: `if`, `while`, "
            "`and`, `or` and `not` need one. Use devrt.lax.cond or devrt.numpy.where, "
            "devrt.lax.while_loop for loops, devrt.numpy.logical_and and its "
            f"like{self._or_static()}."
        )
        raise TracerBoolConversionError(msg)

    def __index__(self) -> int:
        msg = (
            f"a traced value of {self.aval} is no Python integer yet{at_user_line()}: shapes, "
            "axes, range() and indices of lists need one. Use devrt.lax.fori_loop, "
            f"devrt.numpy.take or devrt.lax.dynamic_slice{self._or_static()}."
        )
        raise TracerIntegerConversionError(msg)

    def _concrete(self, kind: str) -> NoReturn:
        msg = (
            f"{kind}() needs the value of a traced {self.aval}, which is not known "
            f"yet{at_user_line()}. Convert with astype(), or convert the result of the "
            f"call{self._or_static()}."
        )
        raise ConcretizationTypeError(msg)

    def __int__(self) -> int:
        self._concrete("int")

    def __float__(self) -> float:
        self._concrete("float")

    def __complex__(self) -> complex:
        self._concrete("complex")

    def item(self, *index: int) -> Any:
        """Raise: the value is not known yet."""
        self._concrete("item")

    def tolist(self) -> Any:
        """Raise: the value is not known yet."""
        self._concrete("tolist")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        msg = (
            f"a traced value of {self.aval} is no NumPy array{at_user_line()}: a function of NumPy "
            "needs elements, and there are none yet. Use the function of that name in "
            f"devrt.numpy{self._or_static()}."
        )
        raise TracerArrayConversionError(msg)

    # NumPy's arrays on the left leave an operator to this class; its functions ask for elements.
    __array_priority__ = 100

    def copy(self) -> Tracer:
        """Return the value itself: it is immutable."""
        return self

    def tobytes(self) -> bytes:
        """Raise: the value is not known yet."""
        self._concrete("tobytes")

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        try:
            return format(repr(self), spec)
        except ValueError as error:
            msg = (
                f"a traced value of {self.aval} has no number yet to format as "
                f"{spec!r}{at_user_line()}. Print it when the function runs: "
                f"devrt.debug.print('{{:{spec}}}', x)."
            )
            raise ConcretizationTypeError(msg) from error
