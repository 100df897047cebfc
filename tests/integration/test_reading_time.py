"""What devrt reads of a program itself takes time linear in the program's length.

A child reads crafted texts of 256 KiB, each with some 20 times the processor time that it needs.
What grows with the square needs far more for the texts that it is slow on: 20 s for 100 KB were
seen. Processor time counts, which other processes do not take away from.
"""

import contextlib
import sys
import time

import pytest

from devrt.compiling import Program
from devrt.compiling.refusals import check
from devrt.compiling.text import read_text
from devrt.errors import InvalidArgumentError, UnimplementedError
from support import run_python

SIZE = 1 << 18
BUDGET = 4  # seconds of processor time for one text and one reader
MAIN = "module { func.func public @main("

REPEATED = r"""
@|call|call @|call @f |call // |//|// call @f |func.func |func.func @|func.func @"
func.func @a(|func.func @a() |func.func @a() -> |func.func @a() -> (
func.func @a() attributes {|func.func @a(func.func @b() |func.func @main(: tuple<
func.func @main(%a: tuple<|@main(:|(|)|{|}|[|]|<|>|()|{}|(]|({[<|([)]|"|\|\"|"\|"a"|"a"(
"a" |"a" // |"\"|'|,|:|=|->|-|!|#|%|^|stablehlo.|stablehlo.all_to_all |all_to_all |
stablehlo.all_to_all replica_groups = dense<
stablehlo.all_to_all replica_groups = dense<> : |replica_groups = dense<|replica_groups |
replica_groups=|stablehlo.bitcast_convert |stablehlo.bitcast_convert tensor<
stablehlo.bitcast_convert tensor<1x|tensor<|tensor<1x|tensor<i1>|1x|1|f6E2M3FN|f6E|!quant.
!quant.a|!quant.a<|tuple<|tuple<f32>, |tuple|"stablehlo.infeed"|"stablehlo.infeed" (
stablehlo.infeed|mhlo.|mhlo.num_replicas|mhlo.num_replicas =|mhlo.num_partitions = 1
sdy.mesh |sdy.mesh @|sdy.mesh @a|sdy.mesh @a=|sdy.mesh @a = <[|sdy.mesh @a = <["x"
api_version|api_version = 2 |backend_config = |backend_config = "" |, |, backend_config
_ffi |lapack_s|lapack_sa |lapack_sa_ffi|blas_d|a|_|.|s|m|c|f|t|r|é|attributes |loc(|loc("a"(
affine_map<(d0) -> (d0)>|""(|( )|"func.func"(|"func.func"() ({|"func.func"() ({})|"func.call"(|loc (
callee = |callee = @f |callee = [@f, |"callee" = @f |decomposition = @f |sym_name = "f"|{sym_name =
function_type = (|module {|module attributes {|"builtin.module"() ({|{-#|#-}|"\73"(|"\73" =|chlo.
!a = tuple<f32> |!a = !a |!a |!|mesh<[|xla.sdy.|"stablehlo.custom_call"() <{call_target_name = "
stablehlo.custom_call @|func.func @main(%a: !a) {}|
"""


def texts():
    """Return crafted texts by name."""
    pieces = [
        piece for line in REPEATED.strip("\n").splitlines() for piece in line.split("|") if piece
    ]
    made = {repr(piece): filled(piece) for piece in [*pieces, " ", "\n", "\t \n", "\0"]}
    made["a digit"] = "mhlo.num_replicas = " + filled("1")
    made["a size of a mesh"] = 'sdy.mesh @a = <["x"=' + filled("1") + "]>"
    made["axes of a mesh"] = "sdy.mesh @a = <[" + filled('"x"=1,')
    made["an open head"] = "func.func @a(" + filled("(")
    made["heads in heads"] = "func.func @a(" * (SIZE // 14) + ") {}" * (SIZE // 14)
    made["a head of many"] = "func.func @a(" + filled("()") + ") {}"
    made["a chain of calls"] = "".join(
        f"func.func @f{i}() {{ call @f{i + 1} }}" for i in range(SIZE // 40)
    )
    made["many calls"] = "func.func @f() {" + filled("call @g ") + "} func.func @g() { call @f }"
    made["a string"] = '"' + filled("\\22")
    made["tuples in tuples"] = MAIN + "%a: " + "tuple<" * (SIZE // 7) + ">" * (SIZE // 7) + ") {}"
    deep = "tuple<" * 50 + filled("tensor<f32>,") + "i1" + ">" * 50
    made["a wide tuple far inside"] = f"{MAIN}%a: {deep}) {{ return }} }}"
    made["a wide tuple"] = f"{MAIN}%a: tuple<{filled('tensor<f32>,')}i1>) {{ return }} }}"
    made["a wide result"] = f"{MAIN}) -> tuple<{filled('tensor<f32>,')}i1> {{ return }} }}"
    many = ",".join(f"%a{i}: tuple<f32>" for i in range(SIZE // 20))
    made["many tuples"] = f"{MAIN}{many}) {{ return }} }}"
    made["space in a tuple"] = f"{MAIN}%a: tuple<{filled(' ')}{filled('<>')}>) {{ return }} }}"
    made["names of tuples"] = "!a = tuple<f32>\n" * (SIZE // 16) + MAIN + "%a: !b) { return } }"
    made["heads of names"] = "func.func @main(%a: !b) {}" * (SIZE // 26)
    made["donated"] = MAIN + "%a: f32 {jax.buffer_donor = true}," * (SIZE // 36) + ") {} }"
    made["an open tuple"] = MAIN + "%a: " + filled("tuple<")
    return made


def number(value):
    """Return a number as MLIR's bytecode writes long ones."""
    return b"\0" + value.to_bytes(8, "little")


def section(kind, data):
    return bytes([kind]) + number(len(data)) + data


def bytecode(operations, code):
    """Return a module whose operations, without their number before them, are given."""
    strings = [b"stablehlo\0", b"bitcast_convert\0"]
    lengths = b"".join(number(len(each)) for each in reversed(strings))
    dialects = number(1) + number(0) + number(0) + number(1) + number(1)
    parts = [
        section(0, number(len(strings)) + lengths + b"".join(strings)),
        section(1, dialects),
        section(2, b""),
        section(3, number(0) + number(0)),
        section(4, number(operations << 1) + code),
    ]
    return b"ML\xefR" + number(3) + b"name\0" + b"".join(parts)


def bytecodes():
    """Return crafted bytecode by name: what it announces is not there."""
    operation = number(0) + b"\x10" + number(0) + number(1 << 1)  # with one region
    announced = operation + number(1) + number(SIZE // 2) + number(0)
    count = SIZE // len(announced)
    made = {"regions of many values": bytecode(count, announced * count)}
    sections, count = b"", 200
    for _ in range(count):
        inside = number(1) + number(0) + number(1 << 1 if sections else 0) + sections
        sections = operation[:-9] + number(1 << 1 | 1) + section(4, inside)
    return made | {"regions in regions": bytecode(1, sections)} | shared_entries()


def short(value):
    """Return a number as MLIR's bytecode writes small ones."""
    return bytes([value << 1 | 1]) if value < 128 else number(value)


def portable(names, entries, operations, properties=(), version=6, uses=1):
    """Return portable bytecode of strings, attributes and then one type for the last of these."""
    strings = [b"vhlo\0", *(name + b"\0" for name in names)]
    lengths = b"".join(short(len(each)) for each in reversed(strings))
    count = len(names) - 1  # of the names of operations; the last is another name
    known = uses * b"".join(short(i << 1 | 1 if version > 4 else i) for i in range(1, count + 1))
    dialects = short(1) + short(0) + short(uses * count) + short(0) + short(uses * count) + known
    sizes = [short(len(each) << 1 | 1) for each in entries]
    groups = short(len(entries) - 1) + short(1) + short(0) + short(len(entries) - 1)
    groups += b"".join(sizes[:-1]) + short(0) + short(1) + sizes[-1]
    held = short(len(properties)) + b"".join(short(len(each)) + each for each in properties)
    parts = [
        section(0, short(len(strings)) + lengths + b"".join(strings)),
        section(1, dialects),
        section(2, b"".join(entries)),
        section(3, groups),
        section(4, short(len(operations) << 1) + b"".join(operations)),
        section(8, held),
    ]
    return b"ML\xefR" + short(version) + b"name\0" + b"".join(parts)


def shared_entries():
    """Return bytecode in which many operations refer to one long entry, or to one long name."""
    half, many = SIZE // 2, SIZE // 16
    array = short(1) + number(half) + short(0) * half  # of a string
    of_items = short(6) + number(half // 2) + (short(0) + short(0)) * (half // 2)
    takes = short(8) + number(half) + short(0) * half + short(0)  # a function's type
    kind = short(17) + short(0)
    function = short(0) + b"\x40" + short(0) + short(0)  # with properties
    within = short(1) + b"\x40" + short(0) + short(1)
    holds = short(0) + b"\x50" + short(0) + short(0) + short(1 << 1)  # with a region of one block
    holds += short(1) + short(0) + short(1 << 1) + within
    heads = [short(1) + short(2) + short(1) + short(0) + short(0)]
    calls = [short(3) + short(2) + short(1) + short(0) + short(0), short(1) * 5]
    names = [b"func_v1", b"call_v1", b"main"]
    string = short(14) + short(3)
    long = [b"func_v1", b"custom_call_v1", b"a" * half]
    older = short(0) + b"\x01" + short(0) + short(1)  # with attributes
    return {
        "functions of one type": portable(
            names, [string, array, kind, takes], [function] * many, heads
        ),
        "calls by one list": portable(
            names, [string, array, kind, kind, takes], [holds] * many, calls
        ),
        "one long name": portable(
            long, [string, string, kind, takes[:9]], [function, within] * many, heads * 2
        ),
        "operations of one name": portable(
            [b"a" * half, b"b"], [string, takes[:9]], [], uses=many * 4
        ),
        "one dictionary": portable(names, [string, of_items, takes[:9]], [older] * many, version=4),
    }


def filled(piece):
    return piece * (SIZE // len(piece))


def read_all(say):
    """Read each of the texts with everything that reads one before a compiler does."""
    import resource

    from devrt_cpu._linalg import named_calls

    readers = {
        "programs": lambda code: check(Program(code), "compile"),
        "names of calls": named_calls,
    }
    given = {name: text.encode() for name, text in texts().items()} | bytecodes()
    for name, code in given.items():
        for subject, read in readers.items():
            say(f"{subject} of {name}")
            limit = int(time.process_time()) + BUDGET
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            with contextlib.suppress(UnimplementedError, InvalidArgumentError):  # an answer, too
                read(code)
    say("done")


def test_crafted_texts_are_read_in_linear_time():
    pytest.importorskip("devrt_cpu")
    done = run_python("-W", "error", __file__, status=None, timeout=900)
    last = done.stdout.strip().splitlines()[-1:]
    assert (done.returncode, last) == (0, ["done"]), (last, done.stderr[-2000:])


@pytest.mark.parametrize("bracket", ["(", "{", "[", "<"])
def test_brackets_that_no_compiler_survives_are_refused(bracket):
    closing = {"(": ")", "{": "}", "[": "]", "<": ">"}[bracket]
    for deep in (bracket * 100_000, bracket * 100_000 + closing * 100_000):
        for text in (f"module {deep}", f"func.func @main{deep}", f"func.func @main() {{ {deep} }}"):
            with pytest.raises(InvalidArgumentError, match="nested deeper than 1000"):
                check(Program.of(text, "compile"), "compile")


def test_brackets_are_counted_where_they_nest_only():
    for text in (
        "()" * 9000,
        '"' + "(" * 9000 + '"',
        "//" + "(" * 9000,
        "(" * 900 + ")" * 900,
        "->",
    ):
        for repeated in (text, f"{text}\n" * 20):
            assert not read_text(repeated.encode()).is_too_deep


if __name__ == "__main__":
    read_all(lambda line: sys.stdout.write(f"{line}\n") and sys.stdout.flush())
