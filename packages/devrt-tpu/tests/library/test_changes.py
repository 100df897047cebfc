"""What plugins change in their process, and what they write: nothing stands between them and it."""

from support import python


def test_what_a_plugin_writes_goes_to_standard_error_at_once(child):
    done = child("client()\nimport os\nos._exit(3)", status=3, FAKE_LOG="lines")
    assert done.stderr == "E1121 17:10:16.657269   12608 fake.cc:9] it is broken\na question? "


def test_making_a_client_leaves_signals_alone(child):
    done = child(
        """
import faulthandler
from devrt_pjrt.library.changes import Snapshot
faulthandler.enable()
before = Snapshot()
client().close()
print(before.changes().handlers)
"""
    )
    assert done.stdout == "()\n", done.stderr


def test_what_a_plugin_changes_is_reported(child):
    done = child(
        """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # this run may have been started to outlive its shell
one = library(); one.initialize()
print(dict(one.changes.environment), one.changes.handlers, "FAKE_WAS_HERE" in os.environ)
""",
        FAKE_LOG="change",
    )
    assert done.stdout == "{'FAKE_WAS_HERE': 'yes'} ('SIGHUP',) False\n", done.stderr


def test_informational_lines_of_xla_are_kept_off_unless_they_are_wanted(xla_cpu_library):
    code = """
import sys, devrt_pjrt
library = devrt_pjrt.library_for("x", sys.argv[1])
client = devrt_pjrt.make_client(library, "x", {"cpu_device_count": 2})
"""
    for level, is_quiet in (({}, True), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, False)):
        done = python(code, xla_cpu_library, options=(), clean=("TF_CPP_MIN_LOG_LEVEL",), **level)
        assert (done.stderr == "") == is_quiet
