"""What is installed and whether it works, found out without being harmed by it.

Plugins are probed in child processes; a backend that is used runs in the user's own.
"""

from devrt.doctor.diagnosis import diagnose
from devrt.doctor.examination import examine
from devrt.doctor.explanation import Explanation, explain
from devrt.doctor.findings import CODES, Finding
from devrt.doctor.hardware import SeenHardware, seen_hardware
from devrt.doctor.plugin_entries import entries
from devrt.doctor.records import SCHEMA_VERSION, PluginEntry, Report, Rule, Variable

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
    "examine",
    "explain",
    "seen_hardware",
]
