"""What the system grants: pages locked into RAM, and huge pages."""

import os
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError
from devrt.records import MemoryKind
from devrt.runtime import Runtime
from devrt_cpu import allocators, make_cpu_client
from support import python

MIB = 1 << 20
HUGE = MIB * 2

# RLIMIT_MEMLOCK does not bind who has CAP_IPC_LOCK, so a child gives up every capability.
POWERLESS = """
    import ctypes, resource, warnings
    import numpy as np
    from devrt.errors import DevrtWarning
    from devrt_cpu import make_cpu_client
    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
    none = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capset(ctypes.byref(Header(0x20080522, 0)), none) == 0, ctypes.get_errno()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (LIMIT, LIMIT))
    host = np.arange(16384, dtype=np.uint8)
    def locked():
        for line in open("/proc/self/status"):
            if line.startswith("VmLck:"): return int(line.split()[1]) * 1024
    client = make_cpu_client()
    memory = client.devices()[0].memory("pinned_host")
"""


def run_powerless(limit, code):
    program = textwrap.dedent(POWERLESS).replace("LIMIT, LIMIT", f"{limit}, {limit}")
    done = python(program + textwrap.dedent(code), options=())
    assert "leaked" not in done.stderr
    return done.stdout


def locked_bytes():
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmLck:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


def test_pinned_memory_is_locked_as_the_kernel_sees_it():
    with make_cpu_client() as client:
        memory = client.devices()[0].memory("pinned_host")
        before = locked_bytes()
        buffer = client.buffer_from_pyval(np.ones(MIB, np.uint8), memory)
        stats = memory.memory_stats()
        assert stats["bytes_page_locked"] + stats["bytes_not_page_locked"] == MIB
        assert locked_bytes() - before == stats["bytes_page_locked"]
        assert stats["bytes_page_locked"] == MIB  # RLIMIT_MEMLOCK is 8 MiB by default
        del buffer
        client.defragment()
        assert locked_bytes() == before


def test_without_the_right_to_lock_memory_is_plain_counted_and_warned_of_once():
    printed = run_powerless(
        0,
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            buffers = [client.buffer_from_pyval(host, memory) for _ in range(3)]
            buffers.append(buffers[0].copy_to_memory(memory, may_alias=False))
        (warning,) = caught
        assert warning.category is DevrtWarning
        assert warning.filename == "<string>", warning.filename
        assert "RLIMIT_MEMLOCK" in str(warning.message)
        stats = memory.memory_stats()
        print(stats["bytes_page_locked"], stats["bytes_not_page_locked"], locked())
        assert all((np.asarray(b) == host).all() for b in buffers)
        """,
    )
    assert printed.split() == ["0", str(4 * 16384), "0"]


def test_what_the_limit_leaves_is_locked_and_kept_blocks_are_freed():
    printed = run_powerless(
        32768,
        """
        warnings.simplefilter("error")
        for size in (8192, 4096, 12288):  # each leaves a kept block of its size
            client.buffer_from_pyval(host[:size], memory).delete()
        held = [client.buffer_from_pyval(host, memory) for _ in range(2)]
        print(memory.memory_stats()["bytes_page_locked"], locked())
        warnings.simplefilter("ignore")
        held.append(client.buffer_from_pyval(host, memory))
        print(memory.memory_stats()["bytes_not_page_locked"], locked())
        """,
    )
    assert printed.split() == ["32768", "32768", "16384", "32768"]


def test_a_warning_that_is_an_error_loses_nothing():
    run_powerless(
        0,
        """
        warnings.simplefilter("error")
        try:
            client.buffer_from_pyval(host, memory)
        except DevrtWarning:
            assert client.live_buffers() == []
            assert memory.memory_stats()["bytes_in_use"] == 0
        else:
            raise AssertionError
        client.buffer_from_pyval(host, memory)
        """,
    )


def transparent_bytes(address):
    """Return AnonHugePages of the mapping that starts at or holds an address."""
    current = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            current = bounds[0]
            is_ours = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif line.startswith("AnonHugePages:") and is_ours:
            return int(line.split()[1]) * 1024
    raise AssertionError(current)


def huge_kind():
    return MemoryKind(platform="cpu", kind="huge", allocator=allocators.huge_pages)


def test_huge_pages_say_what_the_kernel_granted():
    with make_cpu_client(memory_kinds=[huge_kind()]) as client:
        memory = client.devices()[0].memory("huge")
        buffer = client.buffer_from_pyval(np.ones(5 * MIB, np.uint8), memory)
        stats = memory.memory_stats()
        assert buffer.unsafe_buffer_pointer() % HUGE == 0
        assert stats["bytes_mapped"] == 3 * HUGE
        granted = stats["bytes_in_reserved_huge_pages"] + stats["bytes_in_transparent_huge_pages"]
        if stats["bytes_in_reserved_huge_pages"] == 0:
            assert granted == transparent_bytes(buffer.unsafe_buffer_pointer())
            allowed = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
            assert "[never]" not in allowed or granted == 0
        assert granted <= 3 * HUGE
        del buffer
        assert memory.memory_stats()["bytes_mapped"] == 0


def test_the_kernel_grants_huge_pages_here():
    allowed = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    if "[never]" in allowed:
        pytest.skip("this kernel gives no transparent huge pages")
    with make_cpu_client(memory_kinds=[huge_kind()]) as client:
        memory = client.devices()[0].memory("huge")
        # One huge page may fail for want of a free one; hardly 16 of them.
        buffer = client.buffer_from_pyval(np.ones(16 * HUGE, np.uint8), memory)
        stats = memory.memory_stats()
        granted = stats["bytes_in_reserved_huge_pages"] + stats["bytes_in_transparent_huge_pages"]
        assert granted >= HUGE
        del buffer


def test_the_plugin_adds_huge_pages_in_an_arena():
    with Runtime() as runtime:
        device = runtime.get_backend("cpu").local_devices()[0]
        memory = device.memory("huge_pages")
        buffers = [device.client.buffer_from_pyval(np.full(999, i), memory) for i in range(50)]
        stats = memory.memory_stats()
        assert stats["arena_regions"] == 1
        assert stats["arena_bytes_held"] == stats["bytes_mapped"] == 32 * MIB
        assert stats["arena_bytes_in_use"] == 50 * 8000
        assert stats["bytes_in_use"] == 50 * 999 * 8
        assert stats["arena_largest_free_block"] == 32 * MIB - 50 * 8000
        assert all((np.asarray(b) == i).all() for i, b in enumerate(buffers))
        buffers.clear()
        device.client.defragment()
        assert memory.memory_stats()["bytes_mapped"] == 0


def test_no_start_pays_for_huge_pages():
    code = """
        import sys
        import devrt
        memory = devrt.devices("cpu")[0].memory("huge_pages")
        assert "devrt_cpu.allocators" not in sys.modules
        assert memory.memory_stats()["bytes_mapped"] == 0
        devrt.device_put([1.0], memory)
        assert memory.memory_stats()["bytes_mapped"] > 0
    """
    python(code)


def test_huge_pages_need_no_allocator_and_may_have_another():
    plain = MemoryKind(platform="cpu", kind="huge_pages")
    own = MemoryKind(platform="cpu", kind="huge_pages", allocator=allocators.system)
    for kind, has_arena in ((plain, True), (own, False)):
        with make_cpu_client(memory_kinds=[kind]) as client:
            memory = client.devices()[0].memory("huge_pages")
            buffer = client.buffer_from_pyval(np.arange(9), memory)
            assert ("arena_regions" in memory.memory_stats()) == has_arena
            assert np.array_equal(np.asarray(buffer), np.arange(9))
            del buffer
    with pytest.raises(InvalidArgumentError, match="there already"):
        make_cpu_client(memory_kinds=[plain, own])


def test_a_forked_child_leaves_huge_pages_alone():
    with make_cpu_client(
        memory_kinds=[
            MemoryKind(
                platform="cpu",
                kind="huge",
                allocator=lambda: allocators.arena(allocators.huge_pages()),
            )
        ]
    ) as client:
        view = [
            np.asarray(client.buffer_from_pyval(np.arange(9), client.devices()[0].memory("huge")))
        ]
        child = os.fork()
        if child == 0:
            view.clear()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert np.array_equal(view[0], np.arange(9))
        view.clear()
