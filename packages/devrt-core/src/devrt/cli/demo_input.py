"""Real data for the demo: scikit-learn's digits, or a file that the user names."""

from __future__ import annotations

import dataclasses
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidArgumentError, UnimplementedError

__all__ = ["Input", "load"]


_DAMAGES = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


@dataclasses.dataclass(frozen=True)
class Input:
    """An array of at least one dimension, where it comes from, and what its rows show if known."""

    name: str
    array: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any] | None = None


def load(path: str | None) -> Input:
    """Read the data.

    Raises
    ------
    UnimplementedError
        If a package that the file needs is not installed; the message names it.
    InvalidArgumentError
        If the file holds no usable array.
    """
    if path is None:
        return _digits()
    file = Path(path)
    readers = {".npy": _npy, ".npz": _npz}
    name, array = readers.get(file.suffix.lower(), _image)(file)
    if array.ndim == 0 or not array.size:
        msg = (
            f"{file.name}: an array of shape {array.shape} has nothing to shard; give a larger one."
        )
        raise InvalidArgumentError(msg, path=path)
    element = dtypes.from_numpy(array.dtype)  # raises for what no device can hold
    return Input(name, np.ascontiguousarray(array, dtypes.to_numpy(element.code)))


def _digits() -> Input:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise _missing("scikit-learn", "the digits data set", error) from error
    digits = load_digits()
    name = "scikit-learn's digits, 1797 handwritten digits of 8 by 8 pixels"
    return Input(name, digits.data.astype(np.float32), digits.target)


def _npy(file: Path) -> tuple[str, np.ndarray[Any, Any]]:
    try:
        with file.open("rb") as stream:  # np.load would take an archive of this name as well
            return file.name, np.lib.format.read_array(stream, allow_pickle=False)
    except _DAMAGES as error:
        raise _unreadable(file, error) from error


def _npz(file: Path) -> tuple[str, np.ndarray[Any, Any]]:
    try:
        with file.open("rb") as stream, np.lib.npyio.NpzFile(stream) as archive:
            members = {name: archive[name] for name in archive.files}
    except _DAMAGES as error:
        raise _unreadable(file, error) from error
    arrays = {name: value for name, value in members.items() if isinstance(value, np.ndarray)}
    if not arrays:
        msg = f"{file.name}: the archive holds no array; save one with numpy.savez."
        raise InvalidArgumentError(msg, path=str(file))
    largest = max(arrays, key=lambda name: arrays[name].nbytes)
    return f"{file.name}, array {largest!r}", arrays[largest]


def _image(file: Path) -> tuple[str, np.ndarray[Any, Any]]:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise _missing("pillow", f"the image {file.name}", error) from error
    try:
        with Image.open(file) as image:
            return f"{file.name}, {image.mode} image", np.asarray(image)
    except (*_DAMAGES, SyntaxError, Image.DecompressionBombError) as error:
        raise _unreadable(file, error) from error


def _missing(package: str, what: str, error: ModuleNotFoundError) -> UnimplementedError:
    msg = f"{what} needs {package}, which is not installed: pip install {package}"
    return UnimplementedError(msg, missing=error.name)


def _unreadable(file: Path, error: Exception) -> InvalidArgumentError:
    msg = f"{file.name} cannot be read as an array: {error}. Give an image, a .npy or a .npz file."
    return InvalidArgumentError(msg, path=str(file))
