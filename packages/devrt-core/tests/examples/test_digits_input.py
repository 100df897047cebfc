"""What the example accepts as data, and what it says of the rest."""

import io
import sys

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.examples.digits import load

X = np.arange(12, dtype=np.int16).reshape(3, 4)


def npy_bytes(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize("array", [X, np.asfortranarray(X)])
def test_npy(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    name, found, labels = load(str(tmp_path / "x.npy"))
    assert (name, found.dtype, labels) == ("x.npy", np.int16, None)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_gives_its_largest_array(tmp_path, save):
    save(tmp_path / "x.npz", small=X[0], large=X, scalar=np.float64(1))
    name, found, _ = load(str(tmp_path / "x.npz"))
    assert name == "x.npz, array 'large'"
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("mode", ["L", "RGB", "1"])
def test_an_image(tmp_path, mode):
    image = pytest.importorskip("PIL.Image")
    image.new(mode, (5, 3)).save(tmp_path / "x.png")
    name, found, _ = load(str(tmp_path / "x.png"))
    assert name == f"x.png, {mode} image"
    assert found.shape[:2] == (3, 5)


def test_the_digits():
    pytest.importorskip("sklearn")
    name, found, labels = load()
    assert (found.shape, found.dtype) == ((1797, 64), np.float32)
    assert len(labels) == 1797
    assert "digits" in name


DAMAGED = {
    "empty.npy": b"",
    "garbage.npy": b"garbage, and long enough to be one",
    "cut.npy": npy_bytes(X)[:-5],
    "objects.npy": npy_bytes(np.array([{}, []], dtype=object)),
    "bad-header.npy": npy_bytes(X).replace(b"'shape'", b"'shap('"),
    "pickle.npy": b"\x80\x04}.",
    "magic.npz": b"PK\x03\x04 and no more",
    "garbage.png": b"garbage",
    "magic.png": b"\x89PNG\r\n\x1a\n and no more",
    "garbage": b"garbage",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_cannot_be_read(tmp_path, name):
    pytest.importorskip("PIL")
    (tmp_path / name).write_bytes(DAMAGED[name])
    match = r"cannot be read: .*Give an image, a .npy or a .npz file"
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        load(str(tmp_path / name))
    assert caught.value.path == str(tmp_path / name)


def test_a_damaged_member_of_an_archive(tmp_path):
    file = tmp_path / "x.npz"
    np.savez_compressed(file, x=np.arange(1000))
    data = bytearray(file.read_bytes())
    data[60:90] = b"\xff" * 30
    file.write_bytes(data)
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        load(str(file))


def test_an_archive_without_an_array(tmp_path):
    np.savez(tmp_path / "x.npz")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        load(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("array", [np.float32(1), np.zeros(0), np.zeros((3, 0, 2))], ids=str)
def test_an_array_with_nothing_to_shard(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InvalidArgumentError, match=r"array of shape .* nothing to shard"):
        load(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("module", "path", "package"), [("sklearn", None, "scikit-learn"), ("PIL", "x.png", "pillow")]
)
def test_a_package_that_is_missing_is_named(monkeypatch, module, path, package):
    for name in list(sys.modules):
        if name.partition(".")[0] == module:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    words = rf"needs {package}.*pip install .*devrt-core\[demo\]"
    with pytest.raises(UnimplementedError, match=words):
        load(path)
