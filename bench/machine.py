"""Which machine this is, as a file name and as facts beside the figures."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

__all__ = ["cpu_model", "facts", "slug", "words"]


def cpu_model() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def slug(model: str, cores: int) -> str:
    """Return the name of the machine's result file: processor and core count."""
    return f"{words(model)}-{cores}-cores"


def words(model: str) -> str:
    """Return a processor's or a device's name as part of a file's name."""
    cleaned = re.sub(r"\((r|tm|c)\)|\bcpu\b|\bprocessor\b", " ", model.lower())
    return "-".join(re.findall(r"[a-z0-9]+", cleaned.replace("@", " ").replace(".", "p")))


def facts() -> dict[str, object]:
    """Return what a reader needs to judge the figures."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": pages * page,
        "system": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
    }
