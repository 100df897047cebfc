"""What the demo accepts as data, and what it says of the rest."""

import io
import sys
import zipfile

import numpy as np
import pytest

from devrt.cli.demo_input import load
from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError

X = np.arange(12, dtype=np.int16).reshape(3, 4)


def zipped(file, members):
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


def npy_bytes(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def test_npy(tmp_path):
    np.save(tmp_path / "x.npy", X)
    data = load(str(tmp_path / "x.npy"))
    assert data.name == "x.npy"
    assert data.array.dtype == np.int16
    np.testing.assert_array_equal(data.array, X)


def test_npy_in_another_order_comes_out_contiguous(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    array = load(str(tmp_path / "x.npy")).array
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, X)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_gives_its_largest_array(tmp_path, save):
    save(tmp_path / "x.npz", small=X[0], large=X, scalar=np.float64(1))
    data = load(str(tmp_path / "x.npz"))
    assert data.name == "x.npz, array 'large'"
    np.testing.assert_array_equal(data.array, X)


@pytest.mark.parametrize("mode", ["L", "RGB", "1"])
def test_an_image(tmp_path, mode):
    image = pytest.importorskip("PIL.Image")
    image.new(mode, (5, 3)).save(tmp_path / "x.png")
    data = load(str(tmp_path / "x.png"))
    assert data.name == f"x.png, {mode} image"
    assert data.array.shape[:2] == (3, 5)


def test_the_digits():
    pytest.importorskip("sklearn")
    data = load(None)
    assert (data.array.shape, data.array.dtype) == ((1797, 64), np.float32)
    assert "digits" in data.name


DAMAGED = {
    "empty.npy": b"",
    "garbage.npy": b"garbage, and long enough to be one",
    "cut.npy": npy_bytes(X)[:-5],
    "header.npy": npy_bytes(X)[:20],
    "objects.npy": npy_bytes(np.array([{}, []], dtype=object)),
    "bad-header.npy": npy_bytes(X).replace(b"'shape'", b"'shap('"),
    "pickle.npy": b"\x80\x04}.",
    "empty.npz": b"",
    "garbage.npz": b"garbage",
    "magic.npz": b"PK\x03\x04 and no more",
    "array.npz": npy_bytes(X),
    "empty.png": b"",
    "garbage.png": b"garbage",
    "magic.png": b"\x89PNG\r\n\x1a\n and no more",
    "garbage": b"garbage",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_cannot_be_read(tmp_path, name):
    if name.endswith("png") or "." not in name:
        pytest.importorskip("PIL")
    (tmp_path / name).write_bytes(DAMAGED[name])
    words = f"{name} cannot be read as an array: .*Give an image, a .npy or a .npz file"
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        load(str(tmp_path / name))
    assert caught.value.path == str(tmp_path / name)


def test_an_archive_called_npy_is_no_array(tmp_path):
    zipped(tmp_path / "x.npy", {"x.npy": npy_bytes(X)})
    with pytest.raises(InvalidArgumentError, match="cannot be read as an array"):
        load(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    "members",
    [
        {"x.npy": npy_bytes(X)[:-5]},
        {"x.npy": npy_bytes(np.array([{}], dtype=object))},
        {},
        {"notes.txt": b"no array"},
    ],
)
def test_an_archive_without_a_usable_array(tmp_path, members):
    zipped(tmp_path / "x.npz", members)
    with pytest.raises(InvalidArgumentError, match=r"x\.npz"):
        load(str(tmp_path / "x.npz"))


def test_a_damaged_member_of_an_archive(tmp_path):
    file = tmp_path / "x.npz"
    np.savez_compressed(file, x=np.arange(1000))
    data = bytearray(file.read_bytes())
    data[60:90] = b"\xff" * 30
    file.write_bytes(data)
    with pytest.raises(InvalidArgumentError, match="cannot be read as an array"):
        load(str(file))


@pytest.mark.parametrize("array", [np.float32(1), np.zeros(0), np.zeros((3, 0, 2))], ids=str)
def test_an_array_with_nothing_to_shard(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(
        InvalidArgumentError, match=r"x\.npy: an array of shape .* nothing to shard"
    ):
        load(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("module", "path", "package"), [("sklearn", None, "scikit-learn"), ("PIL", "x.png", "pillow")]
)
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, module, path, package):
    for name in list(sys.modules):
        if name.partition(".")[0] == module:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    if path is not None:
        path = str(tmp_path / path)
    with pytest.raises(UnimplementedError, match=f"needs {package}.*pip install {package}"):
        load(path)


def test_a_file_that_vanished(tmp_path):
    for name in ("x.npy", "x.npz"):
        with pytest.raises(DevrtError, match=name):
            load(str(tmp_path / name))
