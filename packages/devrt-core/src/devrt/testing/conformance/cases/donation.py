"""Arguments that a program takes over: what becomes of them, and of what others see of them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.contract import Buffer, LoadedExecutable
from devrt.errors import DeletedError, DevrtError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error, require
from devrt.testing.conformance.material import aligned, bytes_in_use, put
from devrt.testing.conformance.programs import compiled, slow
from devrt.testing.conformance.subject import Subject

DONATION = (
    "Capabilities.donation: a program may take its arguments over: their buffers are deleted by "
    "the call, and results may lie in their memory"
)
SIZE = 4096
ADD = f"""func.func @main(%a: tensor<{SIZE}xf32> {{tf.aliasing_output = 0 : i32}},
    %b: tensor<{SIZE}xf32>) -> tensor<{SIZE}xf32> {{
  %0 = stablehlo.add %a, %b : tensor<{SIZE}xf32>
  return %0 : tensor<{SIZE}xf32> }}"""


def _adding(subject: Subject) -> LoadedExecutable:
    executable = compiled(subject, ADD)
    require(subject.client.capabilities.donation, "its programs take no arguments over")
    return executable


def _ones(subject: Subject) -> Buffer:
    return put(subject, np.ones(SIZE, np.float32), subject.device)


def _is(buffer: Any, number: float, what: str) -> None:
    expect_equal(np.asarray(buffer), np.full(SIZE, number, np.float32), what)


@case("execute", "an argument that is donated is deleted by the call", contract=DONATION)
def donated_argument_is_gone(subject: Subject) -> None:
    add = _adding(subject)
    expect_equal(list(add.donated_parameters), [0], "donated_parameters")
    x, y = _ones(subject), _ones(subject)
    (made,) = add.execute([x, y])
    expect_equal((x.is_deleted(), y.is_deleted()), (True, False), "is_deleted() of both")
    _is(made, 2, "the result")
    with expect_error(DeletedError):
        np.asarray(x)
    with expect_error(DeletedError):
        add.execute([x, y])
    _is(y, 1, "the argument that was not donated")


@case(
    "execute",
    "what somebody else sees of a donated argument is not written to",
    contract=DONATION + "; Buffer: one immutable allocation",
)
def donation_spares_what_others_see(subject: Subject) -> None:
    add = _adding(subject)
    shares: dict[str, Callable[[Buffer], Any]] = {
        "a clone": lambda b: b.clone(),
        "a view": np.asarray,
        "a copy that may alias": lambda b: b.copy_to_memory(b.memory),
    }
    if subject.client.capabilities.dlpack and _ones(subject).__dlpack_device__()[0] == 1:
        shares["a DLPack view"] = np.from_dlpack
    for what, share in shares.items():
        for steps in (0, 1):
            x = _ones(subject)
            for _ in range(steps):
                (x,) = add.execute([x, _ones(subject)])
            shared = share(x.block_until_ready())
            (made,) = add.execute([x, _ones(subject)])
            _is(made, 2 + steps, f"the result beside {what}")
            _is(shared, 1 + steps, f"{what} of the donated argument")


@case(
    "execute",
    "memory that was lent read-only is not written to by donation",
    contract="HostBufferSemantics.IMMUTABLE_ZERO_COPY: the buffer may alias the source, which must "
    "not change while the buffer lives",
)
def donation_spares_lent_memory(subject: Subject) -> None:
    add = _adding(subject)
    source = aligned(SIZE)
    source[:] = 1
    x = subject.client.buffer_from_pyval(source, subject.device, False, 2)
    (made,) = add.execute([x, _ones(subject)])
    _is(made, 2, "the result")
    expect_equal(source, np.ones(SIZE, np.float32), "the source that was lent")


@case(
    "execute",
    "an argument may be donated while what makes it still runs",
    contract=DONATION,
)
def donation_in_flight(subject: Subject) -> None:
    add = _adding(subject)
    executable, matrix = slow(subject, 64, 500)  # 64 x 64 are as many elements
    reshape = compiled(
        subject,
        f"func.func @main(%a: tensor<64x64xf32>) -> tensor<{SIZE}xf32> {{ %0 = stablehlo.reshape "
        f"%a : (tensor<64x64xf32>) -> tensor<{SIZE}xf32> return %0 : tensor<{SIZE}xf32> }}",
    )
    for _ in range(3):
        (late,) = executable.execute([put(subject, matrix, subject.device)])
        (flat,) = reshape.execute([late])
        (made,) = add.execute([flat, _ones(subject)])
        expect_equal(flat.is_deleted(), True, "is_deleted() of what was donated in flight")
        expect_equal(np.asarray(made), matrix.reshape(-1) + 1, "the result")


@case(
    "execute",
    "one buffer as a donated and as another argument is refused or copied, and not lost",
    contract=DONATION,
)
def donated_twice_is_not_wrong(subject: Subject) -> None:
    add = _adding(subject)
    x = _ones(subject)
    try:
        (made,) = add.execute([x, x])
    except DevrtError:
        expect_equal(x.is_deleted(), False, "is_deleted() after the call was refused")
        _is(x, 1, "the argument of a refused call")
    else:
        _is(made, 2, "the result")


@case("execute", "a chain of donations takes the memory of one array", contract=DONATION)
def chain_of_donations(subject: Subject) -> None:
    add = _adding(subject)
    y, x = _ones(subject), _ones(subject)
    (x,) = add.execute([x, y])
    x.block_until_ready()
    gc.collect()
    before = bytes_in_use(subject.device)
    for _ in range(50):
        (x,) = add.execute([x, y])
    _is(x, 52, "after 51 calls")
    gc.collect()
    grown = bytes_in_use(subject.device) - before
    expect(grown <= 0, expected="no more memory in use than before", came=f"{grown} bytes more")
