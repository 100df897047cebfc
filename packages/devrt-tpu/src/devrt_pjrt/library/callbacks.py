"""Answers to a plugin that calls into Python, and the end of such calls."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

from devrt.compiling.custom_call_registry import code_of
from devrt.errors import StatusCode
from devrt_pjrt._native import ffi, lib

__all__ = ["after_the_last", "answer_error", "answer_value"]

_SHUT_MS = 2000


def answer_value(answer: Any, data: bytes, code: int = 0) -> None:
    """Fill in an answer; the plugin's side frees it."""
    answer.data = lib.devrt_bytes(len(data))
    if answer.data == ffi.NULL:
        answer.code = int(StatusCode.RESOURCE_EXHAUSTED)
        return
    ffi.memmove(answer.data, data, len(data))
    answer.code, answer.size = code, len(data)


def answer_error(answer: Any, error: BaseException, what: str = "") -> None:
    """Fill in an answer that is an error."""
    text = f"{what}{type(error).__name__}: {error}".replace("\0", " ")
    answer_value(answer, text.encode(errors="replace"), int(code_of(error)))


_last: list[Callable[[], Any]] = []


def after_the_last(call: Callable[[], Any]) -> None:
    """Call something when the interpreter exits and no plugin can call into it any more."""
    _last.append(call)


def _shut() -> None:
    lib.devrt_gate_shut(_SHUT_MS)
    for call in _last:
        call()


atexit.register(_shut)
