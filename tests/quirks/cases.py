"""What shows each quirk: a function of a client that fails, or ends the process, where it is there.

The client is the PJRT loader's, with nothing done about quirks.

    python tests/quirks/cases.py NAME LIBRARY    runs one case and says what came of it
"""

import os
import sys
import threading

import numpy as np

_QUANTISED = "tensor<2x2x!quant.uniform<i8:f32, 2.0:15>>"
_SIDES = (128, 256, 512, 1024)  # which of them show it depends on the processor


class WrongError(Exception):
    """A result is wrong."""


def bitcast_of_booleans(client):
    """Convert a byte's bits."""
    program = client.compile_and_load(
        """func.func @main(%a: tensor<i8>) -> tensor<8xi1> {
          %0 = stablehlo.bitcast_convert %a : (tensor<i8>) -> tensor<8xi1>
          return %0 : tensor<8xi1> }"""
    )
    (found,) = program.execute([client.buffer_from_pyval(np.int8(5))])
    if found.shape != (8,):
        raise WrongError(f"the result has the shape {found.shape} in place of (8,)")


def quantised_types(client):
    """Compile a product of quantised matrices."""
    client.compile_and_load(
        f"""func.func @main(%a: {_QUANTISED}) -> {_QUANTISED} {{
          %0 = stablehlo.dot %a, %a : ({_QUANTISED}, {_QUANTISED}) -> {_QUANTISED}
          return %0 : {_QUANTISED} }}"""
    )


def all_to_all_without_groups(client):
    """Compile an exchange among nobody."""
    client.compile_and_load(
        """func.func @main(%a: tensor<4x8xf32>) -> tensor<8x4xf32> {
          %0 = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64,
            split_count = 2 : i64, replica_groups = dense<0> : tensor<0x2xi64>
          } : (tensor<4x8xf32>) -> tensor<8x4xf32>
          return %0 : tensor<8x4xf32> }"""
    )


def product_of_a_new_operand(client):
    """Multiply with what a donated argument was replaced by, at the same address."""
    for side in _SIDES:
        _multiply_with_a_new_operand(client, side)


def _multiply_with_a_new_operand(client, side):
    square = f"tensor<{side}x{side}xf32>"
    add = client.compile_and_load(
        f"""func.func @main(%x: {square} {{tf.aliasing_output = 0 : i32}}) -> {square} {{
          %c = stablehlo.constant dense<1.0> : {square}
          %r = stablehlo.add %x, %c : {square}
          return %r : {square} }}"""
    )
    multiply = client.compile_and_load(
        f"""func.func @main(%a: {square}, %b: {square}) -> {square} {{
          %r = stablehlo.dot %a, %b : ({square}, {square}) -> {square}
          return %r : {square} }}"""
    )
    ones = client.buffer_from_pyval(np.ones((side, side), np.float32))
    x = client.buffer_from_pyval(np.zeros((side, side), np.float32))
    for step in range(1, 6):
        (x,) = add.execute([x])
        (product,) = multiply.execute([ones, x])
        found = float(np.asarray(product)[3, 3]) / side
        if found != step:
            raise WrongError(f"the product's elements are {found} in place of {step}")


def maximum_with_a_nan(client):
    """Take the larger of a number and a NaN."""
    program = client.compile_and_load(
        """func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
          %0 = stablehlo.maximum %a, %b : tensor<8xf32>
          return %0 : tensor<8xf32> }"""
    )
    ones, nans = (client.buffer_from_pyval(np.full(8, v, np.float32)) for v in (1, np.nan))
    for arguments in ((ones, nans), (nans, ones)):
        (found,) = program.execute(list(arguments))
        if not np.isnan(np.asarray(found)).all():
            raise WrongError("a NaN is lost")


def cost_of_a_program(client):
    """Ask what a sum costs."""
    from devrt.errors import UnimplementedError

    program = client.compile_and_load(
        """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
          %0 = stablehlo.add %a, %a : tensor<8xf32>
          return %0 : tensor<8xf32> }"""
    )
    try:
        program.cost_analysis()
    except UnimplementedError as error:
        raise WrongError("nothing is known of it") from error


def arctangent_of_doubles(client):
    """Take the arctangents of many numbers."""
    program = client.compile_and_load(
        """func.func @main(%a: tensor<400xf64>) -> tensor<400xf64> {
          %c = stablehlo.constant dense<1.0> : tensor<400xf64>
          %0 = stablehlo.atan2 %a, %c : tensor<400xf64>
          return %0 : tensor<400xf64> }"""
    )
    values = np.linspace(-3, 3, 400)
    (found,) = program.execute([client.buffer_from_pyval(values)])
    if not np.allclose(np.asarray(found), np.arctan(values)):
        raise WrongError("an arctangent is wrong")


_PLANE = "tensor<256x256xcomplex<f32>>"
_SECONDS = 10
_CALLS = 50


def transforms_side_by_side(client):
    """Transform several planes in one program, in several calls at a time."""
    lines = [
        f"%c{i} = stablehlo.constant dense<({i + 1}.0, 0.0)> : {_PLANE}\n"
        f"%x{i} = stablehlo.multiply %a, %c{i} : {_PLANE}\n"
        f"%f{i} = stablehlo.fft %x{i}, type = FFT, length = [256, 256] : ({_PLANE}) -> {_PLANE}"
        for i in range(16)
    ]
    names, kinds = ", ".join(f"%f{i}" for i in range(16)), ", ".join([_PLANE] * 16)
    program = client.compile_and_load(
        f"func.func @main(%a: {_PLANE}) -> ({kinds}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {names} : {kinds} }}"
    )
    plane = client.buffer_from_pyval(np.ones((256, 256), np.complex64))

    ended = threading.Semaphore(0)

    def call():
        for _ in range(_CALLS):
            for result in program.execute([plane]):
                result.block_until_ready()
            ended.release()

    threads = [threading.Thread(target=call, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(_CALLS * len(threads)):
        if not ended.acquire(timeout=_SECONDS):
            raise WrongError(f"no call ends within {_SECONDS} s")


def constant_of_six_bits(client):
    """Compile a constant of a type that XLA has no numbers of."""
    client.compile_and_load(
        """func.func @main() -> tensor<2xf6E2M3FN> {
          %0 = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf6E2M3FN>
          return %0 : tensor<2xf6E2M3FN> }"""
    )


def main(name, path):
    """Run a case on a library."""
    import devrt_pjrt
    import devrt_pjrt.programs.compile as compiling
    from devrt.errors import DevrtError

    global _CALLS
    compiling.quirks_of = lambda *_: ()  # nothing is done about any
    _CALLS = 400  # until it hangs, which not every call does
    client = devrt_pjrt.make_client(devrt_pjrt.library_for("examined", path), "examined")
    try:
        globals()[name](client)
    except WrongError as error:
        print(f"there: {error}")
    except DevrtError as error:
        print(f"gone: refused with {str(error).splitlines()[0]}")
    else:
        print("gone")
    sys.stdout.flush()
    os._exit(0)  # what hangs would keep the process


if __name__ == "__main__":
    main(*sys.argv[1:])
