"""What the native module reports at the end of a process whose objects somebody keeps."""

import support

KEEP = """
    import ctypes
    import devrt

    device = devrt.devices("cpu")[0]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(device))
"""


def test_what_others_keep_is_no_notice():
    assert support.python(KEEP, clean=("TEST_LEAK",)).stderr == ""


def test_the_tests_hear_of_it():
    assert "nanobind: leaked" in support.python(KEEP).stderr
