"""Arrays in layouts of their own: put, read, copied, sent in pieces, and passed to programs."""

import ctypes
import itertools

import numpy as np
import pytest

import devrt
import devrt_pjrt
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.layout import Format, Layout, PjRtLayout
from devrt.programs import ArrayProgram
from devrt.sharding import Mesh, NamedSharding, P, SingleDeviceSharding
from devrt_tpu.traits import TPU

ORDERS = list(itertools.permutations(range(3)))
FLIPPED = '{mhlo.layout_mode = "{0,1}"}'
TWICE = """module @twice {{
  func.func public @main(%a: tensor<{0}x{1}> {2}) -> (tensor<{0}x{1}> {3}) {{
    %0 = stablehlo.add %a, %a : tensor<{0}x{1}>
    return %0 : tensor<{0}x{1}> }} }}"""
A = np.arange(6, dtype=np.float32).reshape(2, 3)


def physical(array, order):
    """Return the bytes of an array whose dimensions lie in an order, the fastest first."""
    return np.ascontiguousarray(array.transpose(order[::-1])).tobytes()


def memory_of(buffer):
    buffer.block_until_ready()
    return ctypes.string_at(buffer.unsafe_buffer_pointer(), buffer.nbytes)


@pytest.fixture(scope="module")
def flipped(xla_cpu):
    """Return a program that takes and returns columns one after the other."""
    return xla_cpu.compile_and_load(TWICE.format("2x3", "f32", FLIPPED, FLIPPED))


def test_a_view_outlives_its_buffer(xla_cpu):
    view = np.asarray(xla_cpu.buffer_from_pyval(A, layout="{0,1}"))
    for _ in range(50):
        xla_cpu.buffer_from_pyval(np.full(6, 9.0, np.float32))
    assert np.array_equal(view, A)


def test_the_default_is_a_plain_buffer(xla_cpu, add):
    assert type(xla_cpu.buffer_from_pyval(A, layout="{1,0}")) is devrt_pjrt.PjrtBuffer
    line = xla_cpu.buffer_from_pyval(np.arange(8, dtype=np.float32), layout="{0}")
    assert np.asarray(add.execute([line, line])[0])[7] == 14


class Liar(Layout):
    def minor_to_major(self):
        return (7, 7)


@pytest.mark.parametrize(
    ("layout", "kind", "message"),
    [
        (Layout((0,)), InvalidArgumentError, "another number of dimensions than the array's 2"),
        ("{2,1,0}", InvalidArgumentError, "another number of dimensions"),
        ("{1,0:T(2,2)}", InvalidArgumentError, "tiles or packed elements"),
        ("{1,0:E(4)}", InvalidArgumentError, "tiles or packed elements"),
        ("{0,0}", InvalidArgumentError, "minor_to_major"),
        ("columns", InvalidArgumentError, "no layout that devrt reads"),
        (Liar((0, 1)), InvalidArgumentError, "minor_to_major"),
        (3, InvalidTypeError, "a layout must be a Layout or its text"),
        ((0, 1), InvalidTypeError, "a layout must be a Layout or its text"),
    ],
)
def test_what_is_no_layout_of_the_array_is_refused(xla_cpu, layout, kind, message):
    with pytest.raises(kind, match=message):
        xla_cpu.buffer_from_pyval(A, layout=layout)
    with pytest.raises(kind, match=message):
        xla_cpu.create_buffers_for_async_host_to_device([((2, 3), "float32")], None, [layout])


def test_a_deleted_buffer_has_none(xla_cpu):
    buffer = xla_cpu.buffer_from_pyval(A, layout="{0,1}")
    buffer.delete()
    with pytest.raises(DeletedError):
        _ = buffer.layout
    with pytest.raises(DeletedError):
        np.asarray(buffer)


def test_dlpack_says_that_it_cannot(xla_cpu):
    with pytest.raises(BufferError, match=r"numpy\.asarray"):
        np.from_dlpack(xla_cpu.buffer_from_pyval(A, layout="{0,1}"))


# -- programs -------------------------------------------------------------------------------------


def test_a_program_takes_its_own_layout_and_returns_it(xla_cpu, flipped):
    columns = PjRtLayout("{0,1}")
    assert flipped.get_parameter_layouts() == [columns]
    assert flipped.get_output_layouts() == [columns]
    buffer = xla_cpu.buffer_from_pyval(A, layout=flipped.get_parameter_layouts()[0])
    for _ in range(3):  # a result is an argument
        (buffer,) = flipped.execute([buffer])
        assert buffer.pjrt_layout == columns
    assert np.array_equal(np.asarray(buffer), 8 * A)
    assert np.array_equal(np.asarray(buffer.clone()), 8 * A)


def test_another_layout_is_refused_and_both_are_named(xla_cpu, flipped):
    with pytest.raises(InvalidArgumentError) as caught:
        flipped.execute([xla_cpu.buffer_from_pyval(A)])
    assert "must lie in layout {0,1}, and lies in {1,0}" in str(caught.value)
    assert 'layout="{0,1}"' in str(caught.value)
    plain = xla_cpu.compile_and_load(TWICE.format("2x3", "f32", "", ""))
    with pytest.raises(InvalidArgumentError) as caught:
        plain.execute([xla_cpu.buffer_from_pyval(A, layout="{0,1}")])
    assert "must lie in layout {1,0}, and lies in {0,1}" in str(caught.value)
    assert caught.value.argument == 0
    assert plain.get_parameter_layouts() == [PjRtLayout("{1,0}")]


@pytest.mark.parametrize("shape", ["1x3", "3x1", "1x1", "0x3"])
def test_where_there_is_one_order_every_layout_fits(xla_cpu, shape):
    value = np.ones(tuple(map(int, shape.split("x"))), np.float32)
    plain = xla_cpu.compile_and_load(TWICE.format(shape, "f32", "", ""))
    turned = xla_cpu.compile_and_load(TWICE.format(shape, "f32", FLIPPED, FLIPPED))
    for program, layout in itertools.product((plain, turned), (None, "{0,1}", "{1,0}")):
        (made,) = program.execute([xla_cpu.buffer_from_pyval(value, layout=layout)])
        assert np.array_equal(np.asarray(made), 2 * value)


@pytest.mark.parametrize("order", ORDERS)
def test_programs_of_every_order_agree_with_numpy(xla_cpu, order):
    mode = f'{{mhlo.layout_mode = "{Layout(order)}"}}'
    program = xla_cpu.compile_and_load(TWICE.format("2x3x4", "i32", mode, mode))
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    (made,) = program.execute([xla_cpu.buffer_from_pyval(host, layout=Layout(order))])
    assert np.array_equal(np.asarray(made), 2 * host)
    assert memory_of(made) == physical(2 * host, order)
    again = xla_cpu.deserialize_executable(program.serialize())
    assert again.get_parameter_layouts() == [PjRtLayout(Layout(order))]
    (made,) = again.execute([xla_cpu.buffer_from_pyval(host, layout=Layout(order))])
    assert np.array_equal(np.asarray(made), 2 * host)


def test_every_device_is_checked(xla_cpu):
    text = TWICE.format("2x3", "f32", FLIPPED, FLIPPED)
    devices = xla_cpu.devices()[:2]
    wide = xla_cpu.compile_and_load(text, devices)
    rows, columns = (
        [xla_cpu.buffer_from_pyval(A, device, layout=layout) for device in devices]
        for layout in (None, "{0,1}")
    )
    (shards,) = wide.execute_sharded([columns])
    assert all(np.array_equal(np.asarray(shard), 2 * A) for shard in shards)
    with pytest.raises(InvalidArgumentError, match=r"lies in \{1,0\}"):
        wide.execute_sharded([[columns[0], rows[1]]])


def test_a_donated_argument_of_a_layout_is_taken_over(xla_cpu):
    mode = '{mhlo.layout_mode = "{0,1}", tf.aliasing_output = 0 : i32}'
    program = xla_cpu.compile_and_load(TWICE.format("2x3", "f32", mode, FLIPPED))
    buffer = xla_cpu.buffer_from_pyval(A, layout="{0,1}")
    (made,) = program.execute([buffer])
    assert buffer.is_deleted()
    assert np.array_equal(np.asarray(made), 2 * A)


# -- pieces ---------------------------------------------------------------------------------------


def test_data_that_is_sent_later_lies_so(xla_cpu, flipped):
    specs = [((2, 3), "float32"), ((2, 3), "float32"), ((2, 3), "float32")]
    sender = xla_cpu.create_buffers_for_async_host_to_device(specs, None, ["{0,1}", None, "{0,1}"])
    columns, rows, pieces = (sender.retrieve_buffer(at) for at in range(3))
    assert [b.layout for b in (columns, rows, pieces)] == [
        Layout((0, 1)),
        Layout((1, 0)),
        Layout((0, 1)),
    ]
    sender.transfer_data(0, A).wait("test")
    sender.transfer_data(1, A).wait("test")
    data = physical(A, (0, 1))
    sender.transfer_data(2, data[8:], 8, is_last=False).wait("test")
    sender.transfer_data(2, data[:8], 0).wait("test")
    for buffer in (columns, rows, pieces):
        assert np.array_equal(np.asarray(buffer), A)
    assert memory_of(columns) == memory_of(pieces) == data
    assert np.array_equal(np.asarray(flipped.execute([pieces])[0]), 2 * A)


def test_there_is_a_layout_for_each_buffer(xla_cpu):
    make = xla_cpu.create_buffers_for_async_host_to_device
    with pytest.raises(InvalidArgumentError, match="1 buffers, and 2 layouts"):
        make([((2, 3), "float32")], None, ["{0,1}", "{0,1}"])
    with pytest.raises(InvalidTypeError, match="layouts must be a list"):
        make([((2, 3), "float32")], None, 5)


# -- other plugins --------------------------------------------------------------------------------

PUT = """
h = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
c = client()
def put(): return c.buffer_from_pyval(h[::-1], layout="{0,2,1}")
"""


@pytest.mark.parametrize("off_host", [{}, {"FAKE_OFF_HOST": 1}])
def test_a_plugin_that_lays_elements_out_is_left_to_it(child, off_host):
    code = PUT + "b = put(); print(b.layout, np.array_equal(np.asarray(b), h[::-1]))"
    done = child(code, FAKE_LAYOUTS="honest", **off_host)
    assert done.stdout == "{0,2,1} True\n", done.stderr


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"FAKE_LAYOUTS": "forgets"}, "makes {2,1,0} of it"),
        ({"FAKE_LAYOUTS": "reversed"}, "puts the elements elsewhere"),
        ({"FAKE_LAYOUTS": "one", "FAKE_OFF_HOST": 1}, "puts the elements elsewhere"),
        ({"FAKE_OFF_HOST": 1}, "puts the elements elsewhere"),
    ],
)
def test_a_plugin_that_does_something_else_is_found_out(child, how, message):
    code = PUT + "e = raised(put); print(type(e).__name__, e); c.close(); print(counts())"
    done = child(code, **how)
    first, counts = done.stdout.splitlines()
    assert first.startswith("UnimplementedError"), done.stderr
    assert message in first
    assert counts == "[0, 0, 0, 0, 0]"


def test_bytes_that_a_plugin_takes_as_they_come_are_ordered_here(child):
    code = PUT + "b = put(); print(b.layout, np.array_equal(np.asarray(b), h[::-1]))"
    done = child(code)
    assert done.stdout == "{0,2,1} True\n", done.stderr


def test_tiled_layouts_of_a_program_for_tpus_are_reported(libtpu):
    library = devrt_pjrt.library_for("tpu", libtpu, traits=[TPU])
    topology = devrt_pjrt.make_topology(library, "tpu", "v5e:2x2", {})
    program = topology.compile(TWICE.format("256x512", "f32", FLIPPED, ""))
    (taken,), (given,) = program.get_parameter_layouts(), program.get_output_layouts()
    assert taken._xla_layout().minor_to_major() == (0, 1)
    assert given._xla_layout().minor_to_major() == (1, 0)
    assert taken._xla_layout().tiling() == given._xla_layout().tiling() == [(8, 128)]


def test_arrays_are_put_in_a_format(xla_cpu):
    devices = xla_cpu.local_devices()[:2]
    mesh = Mesh(np.array(devices, dtype=object), ("x",))
    columns, rows = Layout(major_to_minor=(1, 0)), Layout(major_to_minor=(0, 1))
    for sharding in (SingleDeviceSharding(devices[1]), NamedSharding(mesh, P("x"))):
        wanted = Format(columns, sharding)
        for source in (A, devrt.device_put(A, sharding)):
            placed = devrt.device_put(source, wanted)
            assert placed.format == wanted
            assert placed.copy().format == wanted
            np.testing.assert_array_equal(placed, A)
        back = devrt.device_put(placed, Format(rows, sharding))
        assert back.format == Format(rows, sharding)
        np.testing.assert_array_equal(back, A)


def test_a_program_of_arrays_tells_the_formats_that_it_takes(xla_cpu, flipped):
    program = ArrayProgram(flipped)
    (taken,), (made,) = program.input_formats, program.output_formats
    assert taken.layout == made.layout == Layout(major_to_minor=(1, 0))
    with pytest.raises(InvalidArgumentError, match="must lie in layout"):
        program(devrt.device_put(A, program.in_shardings[0]))
    (result,) = program(devrt.device_put(A, taken))
    assert result.format == made
    np.testing.assert_array_equal(result, A + A)


def test_values_of_the_host_are_put_in_the_layout_that_a_program_takes(flipped):
    program = ArrayProgram(flipped)
    for _ in range(2):
        (result,) = program(A)
        np.testing.assert_array_equal(result, A + A)


def test_memory_kinds_have_the_names_of_old(xla_cpu):
    device = xla_cpu.local_devices()[0]
    assert device.memory("default") is device.default_memory()
    assert device.memory("pinned").kind == "pinned_host"
    with pytest.raises(InvalidArgumentError, match="no memory of kind"):
        device.memory("pinned_hos")
