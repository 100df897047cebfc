"""The options of the core itself."""

from __future__ import annotations

from devrt._config.files import FILE_VARIABLE
from devrt._config.guards import GUARD_OPTIONS
from devrt.records import CACHE_OPTIONS, TRACEBACK_IN_BUFFERS, OptionSpec

__all__ = ["CORE_OPTIONS", "NOT_OPTIONS"]

CORE_OPTIONS = (
    OptionSpec(
        name="platforms",
        type=str,
        help="Comma-separated platforms that may be used, the default one first.",
    ),
    OptionSpec(
        name="platform_name",
        type=str,
        help="The default platform; unlike 'platforms' it forbids no other.",
    ),
    OptionSpec(
        name="require_platforms",
        type=str,
        help="Comma-separated platforms that must all be usable for there to be a default one.",
    ),
    OptionSpec(
        name="prefer_platforms",
        type=str,
        help="Comma-separated platforms that come before others, whatever their priority.",
    ),
    OptionSpec(
        name="forbid_platforms",
        type=str,
        help="Comma-separated platforms that are never used.",
    ),
    OptionSpec(
        name="allow_experimental",
        type=bool,
        default=True,
        help="Whether experimental platforms may be used without being named.",
    ),
    OptionSpec(
        name="default_device",
        type=object,
        help="The device for arrays that are placed without naming one.",
    ),
    OptionSpec(
        name="probe",
        type=str,
        default="in-process",
        choices=("in-process", "isolated"),
        help="Where plugins are probed: here, or each in a child process first.",
    ),
    OptionSpec(
        name="cpu_collectives_implementation",
        type=str,
        help="How programs on CPUs of several processes exchange data: an engine of collectives "
        "('gloo', 'mpi', 'store') or 'none'; unset: the first that every process has.",
    ),
    OptionSpec(
        name="traceback_filtering",
        type=str,
        default="auto",
        choices=("auto", "off"),
        help="Whether tracebacks leave out devrt's own lines where the error is about the user's.",
    ),
    *GUARD_OPTIONS,
    OptionSpec(
        name="init_timeout",
        type=float,
        minimum=0.001,
        maximum=1e6,
        help="Seconds that making a client may take; unset: what the plugin says, else for ever.",
    ),
    OptionSpec(
        name="show_in_top",
        type=bool,
        default=False,
        help="Whether 'devrt top' of the same user, or of root, sees what this process's clients "
        "have in use of each kind of memory: a thread answers it (Linux). Set it before the first "
        "client.",
    ),
    TRACEBACK_IN_BUFFERS,
    *CACHE_OPTIONS,
)

NOT_OPTIONS = (
    FILE_VARIABLE,
    "DEVRT_CACHE_DIR",
    "DEVRT_CONFORM_LATENCY",
    "DEVRT_CONFORM_TOPOLOGY",
    "DEVRT_GPU_SIMULATOR",
    "DEVRT_IGNORE_CONFLICTS",
    "DEVRT_COORDINATOR_ADDRESS",
    "DEVRT_COORDINATOR_BIND_ADDRESS",
    "DEVRT_NUM_PROCESSES",
    "DEVRT_PROCESS_ID",
    "DEVRT_LOCAL_DEVICE_IDS",
    "DEVRT_ETCD_USER",
    "DEVRT_ETCD_PASSWORD",
)
"""Variables that begin with ``DEVRT_`` and configure something else than an option."""
