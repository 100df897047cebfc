"""Programs on several devices: each its own part, and what they tell each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.contract import Buffer, LoadedExecutable
from devrt.errors import DevrtError, InvalidArgumentError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error, require
from devrt.testing.conformance.material import Array, put
from devrt.testing.conformance.programs import DOUBLE, takes_programs, tensor
from devrt.testing.conformance.subject import Subject

SHARDED = "LoadedExecutable.execute_sharded: start the program on all its devices and return "
SHARDED += "results by output, then by device"
COLLECTIVES = "Capabilities.collectives: the parts of a program that run on several devices of the "
COLLECTIVES += "client can exchange data"
ADD = """({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %q = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %q : tensor<f32> })"""


def _sum(arrays: list[Array]) -> Array:
    made: Array = np.asarray(np.sum(np.stack(arrays), 0, np.float32))
    return made


def _several(subject: Subject) -> int:
    """Return on how many devices the programs run."""
    takes_programs(subject)
    count = min(len(subject.devices), 8)
    require(count > 1, "it has one device here")
    return count


def _exchanging(subject: Subject) -> int:
    count = _several(subject)
    require(subject.client.capabilities.collectives, "its devices exchange no data in programs")
    return count


def _parts(subject: Subject, arrays: list[Array]) -> list[Buffer]:
    return [put(subject, a, d) for a, d in zip(arrays, subject.devices, strict=False)]


def _exchange(
    subject: Subject, count: int, body: str, arrays: list[Array], expected: list[Array], what: str
) -> LoadedExecutable:
    """Run a program whose partitions have these arguments; fail unless results are as expected."""
    given, made = tensor(arrays[0]), tensor(expected[0])
    text = f"""module @exchange attributes {{mhlo.num_partitions = {count} : i32}} {{
      func.func public @main(%a: {given}) -> {made} {{
        {body.replace("$a", given).replace("$r", made)}
        return %r : {made} }} }}"""
    executable = subject.client.compile_and_load(text, subject.devices[:count])
    for _ in range(3):
        (results,) = executable.execute_sharded([_parts(subject, arrays)])
        expect_equal(len(results), count, f"how many results of {what}")
        for device, came, right in zip(subject.devices, results, expected, strict=False):
            expect(came.device is device, expected=device, came=came.device)
            expect_equal(np.asarray(came), right, f"{what} on {device}")
    return executable


def _groups(count: int, rows: int = 1) -> str:
    ids = np.arange(count).reshape(rows, -1)
    return f"replica_groups = dense<{ids.tolist()}> : tensor<{rows}x{count // rows}xi64>"


def _channel(number: int = 1) -> str:
    return f"channel_handle = #stablehlo.channel_handle<handle = {number}, type = 1>"


def _own(count: int, shape: tuple[int, ...] = (8,)) -> list[Array]:
    size = int(np.prod(shape))
    return [(np.arange(size, dtype=np.float32) + 100 * n).reshape(shape) for n in range(count)]


@case("shard", "copies of one program run on all devices, each on its own part", contract=SHARDED)
def copies_of_a_program(subject: Subject) -> None:
    count = _several(subject)
    devices = subject.devices[:count]
    executable = subject.client.compile_and_load(DOUBLE, devices, num_replicas=count)
    expect_equal([d.id for d in executable.local_devices()], [d.id for d in devices], "devices")
    numbers = (executable.num_replicas, executable.num_partitions)
    expect_equal(numbers, (count, 1), "num_replicas and num_partitions")
    rows = [[d.id for d in row] for row in executable.device_assignment()]
    expect_equal(rows, [[d.id] for d in devices], "device_assignment()")
    own = _own(count)
    (results,) = executable.execute_sharded([_parts(subject, own)])
    for device, came, argument in zip(devices, results, own, strict=True):
        expect(came.device is device, expected=device, came=came.device)
        expect_equal(np.asarray(came), 2 * argument, f"the result on {device}")


@case("shard", "an argument on the wrong device is refused, and the next call runs",
      contract=SHARDED)  # fmt: skip
def misplaced_parts_are_refused(subject: Subject) -> None:
    count = _several(subject)
    devices = subject.devices[:count]
    executable = subject.client.compile_and_load(DOUBLE, devices, num_replicas=count)
    own = _own(count)
    right = _parts(subject, own)
    wrong: Any
    for wrong in ([right[:1] * count], [right[:1]], [], [right, right]):
        with expect_error(InvalidArgumentError):
            executable.execute_sharded(wrong)
    (results,) = executable.execute_sharded([right])
    expect_equal(np.asarray(results[-1]), 2 * own[-1], "a call after those that were refused")


@case("shard", "each device has a token of its own", contract=SHARDED)
def tokens_of_each_device(subject: Subject) -> None:
    count = _several(subject)
    devices = subject.devices[:count]
    executable = subject.client.compile_and_load(DOUBLE, devices, num_replicas=count)
    (results,), tokens = executable.execute_sharded([_parts(subject, _own(count))], True)
    expect_equal(len(tokens), count, "how many tokens")
    for token, result in zip(tokens, results, strict=True):
        token.block_until_ready()
        ready = (token.is_ready(), result.is_ready())
        expect_equal(ready, (True, True), "is_ready() of token and result")


@case("shard", "all_reduce gives every device the sum of all", contract=COLLECTIVES)
def all_reduce(subject: Subject) -> None:
    _all_reduce(subject, _exchanging(subject))


def _all_reduce(subject: Subject, count: int) -> None:
    own = _own(count)
    body = f"""%r = "stablehlo.all_reduce"(%a) {ADD}
      {{{_groups(count)}, use_global_device_ids, {_channel()}}} : ($a) -> $r"""
    _exchange(subject, count, body, own, [_sum(own)] * count, "all_reduce")


@case("shard", "a client whose devices exchange nothing refuses programs that would",
      contract="Capabilities.collectives: without it a program that would is refused")  # fmt: skip
def absence_of_collectives_is_reported(subject: Subject) -> None:
    count = _several(subject)
    require(not subject.client.capabilities.collectives, "its devices exchange data in programs")
    with expect_error(DevrtError):
        _all_reduce(subject, count)


@case("shard", "all_reduce in groups sums within each group", contract=COLLECTIVES)
def all_reduce_in_groups(subject: Subject) -> None:
    count = _exchanging(subject) // 2 * 2
    own = _own(count)
    body = f"""%r = "stablehlo.all_reduce"(%a) {ADD}
      {{{_groups(count, 2)}, use_global_device_ids, {_channel()}}} : ($a) -> $r"""
    half = count // 2
    sums = [_sum(own[at : at + half]) for at in (0, half)]
    _exchange(subject, count, body, own, [sums[0]] * half + [sums[1]] * half, "all_reduce")


@case("shard", "all_gather gives every device the parts of all", contract=COLLECTIVES)
def all_gather(subject: Subject) -> None:
    count = _exchanging(subject)
    own = _own(count, (2, 3))
    body = f"""%r = "stablehlo.all_gather"(%a) {{all_gather_dim = 1 : i64,
      {_groups(count)}, use_global_device_ids, {_channel()}}} : ($a) -> $r"""
    whole = np.concatenate(own, 1)
    _exchange(subject, count, body, own, [whole] * count, "all_gather")


@case("shard", "all_to_all gives each device one part of every other", contract=COLLECTIVES)
def all_to_all(subject: Subject) -> None:
    count = _exchanging(subject)
    own = _own(count, (count, 4))
    body = f"""%r = "stablehlo.all_to_all"(%a) {{split_dimension = 0 : i64,
      concat_dimension = 0 : i64, split_count = {count} : i64,
      {_groups(count)}, {_channel()}}} : ($a) -> $r"""
    expected = [np.stack([part[n] for part in own]) for n in range(count)]
    _exchange(subject, count, body, own, expected, "all_to_all")


@case("shard", "collective_permute sends each part on to its pair, and zeros to the others",
      contract=COLLECTIVES)  # fmt: skip
def collective_permute(subject: Subject) -> None:
    count = _exchanging(subject)
    own = _own(count)

    def body(pairs: list[list[int]]) -> str:
        return f"""%r = "stablehlo.collective_permute"(%a) {{source_target_pairs =
          dense<{pairs}> : tensor<{len(pairs)}x2xi64>, {_channel()}}} : ($a) -> $r"""

    around = [[n, (n + 1) % count] for n in range(count)]
    expected = [own[n - 1] for n in range(count)]
    _exchange(subject, count, body(around), own, expected, "a ring")
    some = [np.zeros_like(own[0])] * count
    some[0] = own[1]
    _exchange(subject, count, body([[1, 0]]), own, some, "one pair")


@case("shard", "reduce_scatter gives each device its part of the sum", contract=COLLECTIVES)
def reduce_scatter(subject: Subject) -> None:
    count = _exchanging(subject)
    own = _own(count, (2 * count, 3))
    body = f"""%r = "stablehlo.reduce_scatter"(%a) {ADD} {{scatter_dimension = 0 : i64,
      {_groups(count)}, use_global_device_ids, {_channel()}}} : ($a) -> $r"""
    total = _sum(own)
    expected = [total[2 * n : 2 * n + 2] for n in range(count)]
    _exchange(subject, count, body, own, expected, "reduce_scatter")


@case("shard", "each copy of a program knows its own number", contract=SHARDED)
def replica_id(subject: Subject) -> None:
    count = _several(subject)
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<ui32> {
      %r = stablehlo.replica_id : tensor<ui32>
      return %r : tensor<ui32> }"""
    devices = subject.devices[:count]
    executable = subject.client.compile_and_load(text, devices, num_replicas=count)
    (results,) = executable.execute_sharded([_parts(subject, _own(count))])
    expect_equal([int(np.asarray(came)) for came in results], list(range(count)), "replica_id")


@case("shard", "many exchanges at once come to an end", contract=COLLECTIVES, deadline=60)
def many_exchanges(subject: Subject) -> None:
    count = _exchanging(subject)
    own = [np.full(8, 1, np.float32)] * count
    body = f"""%s = "stablehlo.all_reduce"(%a) {ADD}
      {{{_groups(count)}, use_global_device_ids, {_channel()}}} : ($a) -> $a
      %n = stablehlo.constant dense<{float(count)}> : $a
      %r = stablehlo.divide %s, %n : $a"""
    executable = _exchange(subject, count, body, own, own, "the mean of all")
    parts = _parts(subject, own)
    chain, apart = parts, []
    for _ in range(50):
        (chain,) = executable.execute_sharded([list(chain)])
        apart.append(executable.execute_sharded([parts])[0])
    for results in (chain, *apart):
        for came in results:
            expect_equal(np.asarray(came), own[0], "the mean after many exchanges")


@case("shard", "what the compiler divides is what NumPy gives for the whole", contract=SHARDED)
def divided_by_the_compiler(subject: Subject) -> None:
    count = _exchanging(subject)
    whole = np.random.default_rng(12).integers(-4, 4, (4 * count, 6)).astype(np.float32)
    rows, parts = tensor(whole), np.split(whole, count)
    text = f"""module @divided attributes {{mhlo.num_partitions = {count} : i32}} {{
      func.func public @main(%a: {rows} {{mhlo.sharding = "{{devices=[{count},1]<=[{count}]}}"}})
          -> (tensor<6x6xf32> {{mhlo.sharding = "{{replicated}}"}}) {{
        %t = stablehlo.transpose %a, dims = [1, 0] : ({rows}) -> tensor<6x{4 * count}xf32>
        %r = stablehlo.dot %t, %a : (tensor<6x{4 * count}xf32>, {rows}) -> tensor<6x6xf32>
        return %r : tensor<6x6xf32> }} }}"""
    executable = subject.client.compile_and_load(text, subject.devices[:count])
    (results,) = executable.execute_sharded([_parts(subject, parts)])
    for came in results:
        expect_equal(np.asarray(came), whole.T @ whole, "the product, on every device")
