"""The native SDK's allocators of host memory, to be composed and given to a memory kind.

Each function returns a ``devrt_host_allocator`` capsule, as `devrt.records.MemoryKind.allocator`
wants one from its function, and as the functions here that wrap another allocator take it. All of
them work without Python, from any thread.

>>> from devrt.records import MemoryKind
>>> from devrt_cpu import allocators
>>> kind = MemoryKind(
...     platform="cpu", kind="arena", allocator=lambda: allocators.arena(allocators.system())
... )
"""

from __future__ import annotations

__all__ = ["arena", "huge_pages", "limited", "page_locked", "system"]


def system() -> object:
    """Return the C library's heap, in multiples of 64 bytes."""
    from devrt_cpu import _ext

    return _ext.system_allocator()


def page_locked() -> object:
    """Return memory locked into RAM as far as ``RLIMIT_MEMLOCK`` allows, in whole pages.

    Notes
    -----
    ``memory_stats()`` tells ``bytes_page_locked`` and ``bytes_not_page_locked``.
    """
    from devrt_cpu import _ext

    return _ext.page_locked_allocator()


def huge_pages() -> object:
    """Return memory in pages of 2 MiB: reserved ones, else transparent ones as the kernel likes.

    Notes
    -----
    Every allocation takes whole huge pages: wrap it in an `arena`. ``memory_stats()`` tells
    ``bytes_mapped``, ``bytes_in_reserved_huge_pages``, and ``bytes_in_transparent_huge_pages``,
    which the kernel provides at that moment.
    """
    from devrt_cpu import _ext

    return _ext.huge_page_allocator()


def arena(
    upstream: object,
    *,
    region_bytes: int = 32 << 20,
    granule: int = 4096,
    keep_bytes: int | None = None,
) -> object:
    """Return an allocator that carves its blocks out of large regions, best fit.

    Parameters
    ----------
    upstream
        Where the regions come from.
    region_bytes
        Least size of a region; a smaller one is taken where memory does not allow that.
    granule
        What a region's size is a multiple of: a power of two from 64 on.
    keep_bytes
        How many free bytes are kept; a region that falls empty beyond that is given back. None
        for all, until `CpuClient.defragment`.

    Notes
    -----
    ``memory_stats()`` tells ``arena_regions``, ``arena_bytes_held``, ``arena_bytes_in_use`` and
    ``arena_largest_free_block``.
    """
    from devrt_cpu import _ext

    return _ext.arena_allocator(
        upstream,
        region_bytes=_size("region_bytes", region_bytes, "arena"),
        granule=_size("granule", granule, "arena"),
        keep_bytes=None if keep_bytes is None else _size("keep_bytes", keep_bytes, "arena"),
    )


def limited(upstream: object, limit_bytes: int) -> object:
    """Return an allocator that is out of memory once ``limit_bytes`` are in use."""
    from devrt_cpu import _ext

    return _ext.limited_allocator(upstream, _size("limit_bytes", limit_bytes, "limited"))


def _size(name: str, value: int, operation: str) -> int:
    from devrt_cpu._numbers import INT64_MAX, checked_int

    return checked_int(name, value, operation, 0, INT64_MAX)
