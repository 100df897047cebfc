"""Numbers, layouts and pieces that no program should pass, each refused by one typed error."""

from itertools import product

import numpy as np
import pytest

from devrt.contract import Assembly, Piece
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.layout import Layout
from devrt_cpu import allocators, make_cpu_client
from support import python


@pytest.fixture(scope="module")
def client():
    with make_cpu_client() as made:
        yield made


@pytest.mark.parametrize("order", [(0, -1), (5, 7), (0, 0), (1, 2**70)])
def test_a_layout_of_a_subclass_is_not_trusted(client, order):
    class Lying(Layout):
        def minor_to_major(self):
            return order

    with pytest.raises(InvalidArgumentError, match="minor_to_major"):
        client.buffer_from_pyval(np.zeros((2, 2)), layout=Lying((1, 0)))


def test_a_layout_that_changes_its_length_is_refused(client):
    answers = iter([(1, 0), (0,)])

    class Lying(Layout):
        def minor_to_major(self):
            return next(answers)

    with pytest.raises(InvalidArgumentError, match="minor_to_major"):
        client.buffer_from_pyval(np.zeros((2, 2)), layout=Lying((1, 0)))


def assemble(client, shape, pieces):
    source = client.buffer_from_pyval(np.zeros(shape, np.int32))
    plan = Assembly(shape, 1, (tuple(pieces),), (0,))
    return client.assemble_buffers([source], plan, client.devices())


def box(start, extent):
    return Piece(0, (0,) * len(start), start, extent)


@pytest.mark.parametrize(
    "pieces",
    [
        [box((0, 0), (4, 8))] * 2,
        [box((0, 0), (8, 4)), box((0, 3), (8, 4))],
        [box((0, 0), (4, 8)), box((0, 4), (8, 4))],
        [box((0, 0), (0, 8)), box((0, 0), (4, 8)), box((0, 0), (4, 8))],
        [box((i, j), (1, 1)) for i, j in product(range(8), range(8)) if (i, j) != (7, 7)]
        + [box((3, 5), (1, 1))],
    ],
)
def test_pieces_that_overlap_are_refused(client, pieces):
    with pytest.raises(InvalidArgumentError, match="overlap"):
        assemble(client, (8, 8), pieces)


def test_empty_pieces_overlap_nothing(client):
    made = assemble(client, (8, 8), [box((2, 2), (0, 3)), box((0, 0), (8, 8)), box((0, 0), (8, 0))])
    assert not np.asarray(made[0]).any()


@pytest.mark.parametrize("name", ["memory_limit_bytes", "recycled_bytes"])
@pytest.mark.parametrize(
    ("value", "error"),
    [(2**64, InvalidArgumentError), (-1, InvalidArgumentError), (-(2**70), InvalidArgumentError),
     ("1G", InvalidTypeError)],
)  # fmt: skip
def test_sizes_of_a_client_are_checked(name, value, error):
    with pytest.raises(error, match=name):
        make_cpu_client(**{name: value})
    with pytest.raises(InvalidArgumentError, match="is 0"):
        make_cpu_client(memory_limit_bytes=0)


@pytest.mark.parametrize("limit", ["99999999999999999999", str(2**64)])
def test_a_limit_of_more_than_64_bits_is_refused_by_its_option(limit):
    program = """
        import devrt
        try: devrt.devices("cpu")
        except devrt.errors.DevrtError as error: print(error)
    """
    done = python(program, DEVRT_CPU_MEMORY_LIMIT=limit)
    assert "cpu_memory_limit" in done.stdout.lower()
    assert "nanobind" not in done.stdout + done.stderr


@pytest.mark.parametrize("kind", [None, 3, b"device"])
def test_the_kind_of_a_memory_must_be_a_str(client, kind):
    with pytest.raises(InvalidTypeError, match="must be a str"):
        client.devices()[0].memory(kind)


@pytest.mark.parametrize("value", [-1, 2**64, "1G", 1.5, None])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: allocators.limited(allocators.system(), value),
        lambda value: allocators.arena(allocators.system(), region_bytes=value),
        lambda value: allocators.arena(allocators.system(), granule=value),
    ],
)
def test_sizes_of_allocators_are_checked(make, value):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="must"):
        make(value)


@pytest.mark.parametrize("offset", [(2**64,), (-1,), (1,), ("a",), (0, 0)])
def test_offsets_of_gathered_buffers_are_checked(client, offset):
    with pytest.raises(InvalidArgumentError):
        client.batched_copy_to_host([client.buffer_from_pyval(np.zeros(4))], [offset], np.empty(4))


def test_arrays_that_cannot_be_written_in_order_are_refused(client):
    buffers = [client.buffer_from_pyval(np.zeros(4))]
    readonly = np.empty(4)
    readonly.flags.writeable = False
    for out in (readonly, np.empty(8)[::2]):
        with pytest.raises(InvalidArgumentError, match="writable and C-contiguous"):
            client.batched_copy_to_host(buffers, [(0,)], out)


HOST = np.zeros(4)
PLAN = Assembly((2,), 1, ((Piece(0, (0,), (0,), (2,)),),), (0,))
NO_PLAN = type("NoPlan", (), {"packed": 3})()

OF_THE_WRONG_TYPE = [
    ("force_copy", lambda c, d, b: c.buffer_from_pyval(1, d, None)),
    ("host_buffer_semantics", lambda c, d, b: c.buffer_from_pyval(1, d, False, "x")),
    ("host_buffer_semantics", lambda c, d, b: c.buffer_from_pyval(1, d, False, None)),
    ("devices", lambda c, d, b: c.batched_buffer_from_pyval(HOST, None, [(0,)], (2,))),
    ("devices", lambda c, d, b: c.batched_buffer_from_pyval(HOST, 3, [(0,)], (2,))),
    ("offsets", lambda c, d, b: c.batched_buffer_from_pyval(HOST, [d], None, (2,))),
    ("An offset", lambda c, d, b: c.batched_buffer_from_pyval(HOST, [d], [3], (2,))),
    ("An offset", lambda c, d, b: c.batched_buffer_from_pyval(HOST, [d], [{0}], (2,))),
    ("A shape", lambda c, d, b: c.batched_buffer_from_pyval(HOST, [d], [(0,)], None)),
    ("A shape", lambda c, d, b: c.batched_buffer_from_pyval(HOST, [d], [(0,)], 2)),
    (
        "host_buffer_semantics",
        lambda c, d, b: c.batched_buffer_from_pyval(HOST, [d], [(0,)], (2,), None),
    ),
    ("arguments", lambda c, d, b: c.buffers_from_pyvals(None, [d])),
    ("targets", lambda c, d, b: c.buffers_from_pyvals([1], None)),
    ("the target", lambda c, d, b: c.buffers_from_pyvals([1], [3])),
    ("host_buffer_semantics", lambda c, d, b: c.buffers_from_pyvals([1], [d], "a")),
    ("buffers", lambda c, d, b: c.batched_copy_to_memory(None, [d])),
    ("may_alias", lambda c, d, b: c.batched_copy_to_memory([b], [d], None)),
    ("assembly", lambda c, d, b: c.assemble_buffers([b], None, [d])),
    ("assembly.packed", lambda c, d, b: c.assemble_buffers([b], NO_PLAN, [d])),
    ("sources", lambda c, d, b: c.assemble_buffers(None, PLAN, [d])),
    ("may_alias", lambda c, d, b: c.assemble_buffers([b], PLAN, [d], "x")),
    ("out", lambda c, d, b: c.batched_copy_to_host([b], [(0,)], None)),
    ("buffers", lambda c, d, b: c.batched_copy_to_host(3, [(0,)], np.zeros(4))),
    ("An offset", lambda c, d, b: c.batched_copy_to_host([b], [3], np.zeros(4))),
    ("buffers", lambda c, d, b: c.batched_block_until_ready(None)),
    ("buffers", lambda c, d, b: c.batched_block_until_ready(3)),
    ("may_alias", lambda c, d, b: b.copy_to_memory(d.default_memory(), may_alias=3)),
    ("dtype", lambda c, d, b: c.get_default_layout(None, (1,))),
    ("A shape", lambda c, d, b: c.get_default_layout(np.float32, None)),
    ("local_hardware_id", lambda c, d, b: c.device_from_local_hardware_id(None)),
    ("cancel", lambda c, d, b: c.close(cancel=3)),
    (
        "traceback_in_buffers",
        lambda c, d, b: make_cpu_client(
            traceback_in_buffers=3  # type: ignore[arg-type]
        ),
    ),
    (
        "asynchronous",
        lambda c, d, b: make_cpu_client(
            asynchronous="yes"  # type: ignore[arg-type]
        ),
    ),
    (
        "asynchronous",
        lambda c, d, b: make_cpu_client(
            asynchronous=None  # type: ignore[arg-type]
        ),
    ),
]


@pytest.mark.parametrize(("says", "call"), OF_THE_WRONG_TYPE)
def test_an_argument_of_the_wrong_type_is_one_typed_error(client, says, call):
    device = client.devices()[0]
    buffer = client.buffer_from_pyval(HOST)
    with pytest.raises(InvalidTypeError) as caught:
        call(client, device, buffer)
    assert f"{says} must be" in str(caught.value)
    assert not client.is_closed
    assert np.array_equal(np.asarray(buffer), HOST)


def test_an_iterator_that_fails_keeps_its_error(client):
    def failing():
        yield 1
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        client.buffers_from_pyvals(failing(), client.devices())
