"""What commands say of files that are not as they must be, and how they write their own."""

import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from devrt.cli import files
from devrt.errors import InvalidArgumentError, OutOfMemoryError

A, B = np.arange(3.0), np.arange(4, dtype=np.int8)


def saved(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def test_arguments_are_taken_by_their_number_and_others_left(tmp_path):
    arrays = {f"in{i}": np.full(2, i) for i in reversed(range(11))}
    read = files.read_arguments(saved(tmp_path / "a.npz", out0=A, **arrays))
    assert [int(array[0]) for array in read] == list(range(11))


def test_arguments_of_other_names_are_taken_in_the_file_s_order(tmp_path):
    read = files.read_arguments(saved(tmp_path / "a.npz", weight=B, bias=A))
    assert [array.dtype for array in read] == [B.dtype, A.dtype]


def test_a_gap_in_the_numbers_is_reported(tmp_path):
    with pytest.raises(InvalidArgumentError, match="without a gap, and it has in0, in3"):
        files.read_arguments(saved(tmp_path / "a.npz", in0=A, in3=A))


def object_array(path):
    saved(path, in0=np.array([None, {}], dtype=object))


def one_array(path):
    with open(path, "wb") as file:
        np.save(file, A)


def cut_short(path):
    saved(path, in0=A)
    path.write_bytes(path.read_bytes()[:100])


def damaged(path):
    saved(path, in0=A)
    data = bytearray(path.read_bytes())
    data[data.index(A.tobytes())] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "make",
    [
        object_array,
        one_array,
        cut_short,
        damaged,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("module {}"),
        lambda path: path.mkdir(),
    ],
    ids=["objects", "npy", "cut", "damaged", "empty", "text", "folder"],
)
def test_a_file_without_plain_arrays_is_one_error(tmp_path, make):
    path = tmp_path / "a.npz"
    make(path)
    with pytest.raises(InvalidArgumentError, match=r"a\.npz' cannot be read: ") as caught:
        files.read_arguments(str(path))
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("code", [b"ML\xefR\0\xff", b"func.func", "// \u00e9".encode(), b""])
def test_programs_are_text_or_bytecode(tmp_path, code):
    path = tmp_path / "program"
    path.write_bytes(code)
    assert files.read_program(str(path)) == code


@pytest.mark.parametrize("code", [b"PK\x03\x04\0\0", b"\x0a\xff\xfe", b"func\0"])
def test_what_is_no_program_is_reported_before_a_compiler_is_queried(tmp_path, code):
    path = tmp_path / "program.exe"
    path.write_bytes(code)
    with pytest.raises(InvalidArgumentError, match="neither StableHLO's text nor its bytecode"):
        files.read_program(str(path))


def test_a_compiler_s_error_names_the_file():
    words = r"^failed: a\.mlir:2:8: no\nx-:1:1: a\.mlir:3:1: n$"
    with pytest.raises(OutOfMemoryError, match=words) as caught, files.naming("a.mlir"):
        raise OutOfMemoryError("failed: -:2:8: no\nx-:1:1: -:3:1: n", limit=7)
    assert caught.value.limit == 7


def write(path, data):
    with files.writing(str(path)) as file:
        file.write(data)


def test_a_file_is_written_with_the_user_s_permissions(tmp_path):
    path = tmp_path / "out"
    former = os.umask(0o027)
    try:
        write(path, b"abc")
    finally:
        os.umask(former)
    assert path.read_bytes() == b"abc"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_fails_leaves_the_former_file_and_no_other(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"former")

    def fail():
        with files.writing(str(path)) as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(InvalidArgumentError, match=r"out' cannot be written: No space"):
        fail()
    assert path.read_bytes() == b"former"
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"former")
    link.symlink_to(target)
    write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(Path(path).read_bytes()), daemon=True)
    reader.start()
    write(path, b"abc")
    assert stat.S_ISFIFO(path.stat().st_mode)
    reader.join(60)
    assert read == [b"abc"]
