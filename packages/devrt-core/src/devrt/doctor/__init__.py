"""What is installed and whether it works, found out without being harmed by it.

Plugins are probed in child processes; a backend that is used runs in the user's own.
"""

from devrt.doctor._diagnose import diagnose
from devrt.doctor._entries import entries
from devrt.doctor._explain import Explanation, explain
from devrt.doctor._findings import CODES, Finding
from devrt.doctor._hardware import SeenHardware, seen_hardware
from devrt.doctor._libraries import exported_symbols
from devrt.doctor._records import SCHEMA_VERSION, PluginEntry, Report, Rule, Variable
from devrt.doctor._survey import survey

__all__ = [
    "CODES",
    "SCHEMA_VERSION",
    "Explanation",
    "Finding",
    "PluginEntry",
    "Report",
    "Rule",
    "SeenHardware",
    "Variable",
    "diagnose",
    "entries",
    "explain",
    "exported_symbols",
    "seen_hardware",
    "survey",
]
