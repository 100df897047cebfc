"""A compiled program on real data: a classifier of digits that JAX exported, over eight devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from devrt.contract import Device
from devrt.programs import ArrayProgram, load_program

__all__ = ["DEVICES", "HELD_OUT", "classify", "expected"]

DEVICES = 8
"""The devices that the program divides its images over."""

HELD_OUT = 800
"""The last images of the data set, which the classifier was not trained on."""

_FOLDER = Path(__file__).parent / "data"


def classify(
    images: np.ndarray[Any, Any], devices: Sequence[Device]
) -> tuple[ArrayProgram, np.ndarray[Any, Any]]:
    """Compile the classifier and run it; returns the program and a label for each image.

    Parameters
    ----------
    images
        ``HELD_OUT`` images as float32, 64 pixels from 0 to 16 each.
    devices
        ``DEVICES`` devices of one platform.

    Raises
    ------
    UnimplementedError
        If the platform has no compiler; the message says what to install.
    """
    program = load_program((_FOLDER / "digits.mlirbc").read_bytes(), devices=devices)
    labels, _ = program(*_weights(), images)
    return program, np.asarray(labels)


def expected(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the labels that NumPy finds with the same weights."""
    w1, b1, w2, b2 = _weights()
    hidden = np.maximum(images / np.float32(16) @ w1 + b1, 0)
    labels: np.ndarray[Any, Any] = np.argmax(hidden @ w2 + b2, axis=1).astype(np.int32)
    return labels


def _weights() -> list[np.ndarray[Any, Any]]:
    with np.load(_FOLDER / "digits.npz") as stored:
        return [stored[name] for name in ("w1", "b1", "w2", "b2")]
