"""Opening plugins: what is refused and how, versions, names and capsules."""

import os
import sys
from pathlib import Path

import pytest

import devrt_pjrt
from devrt.errors import InvalidArgumentError, InvalidTypeError, PluginError, PluginLoadError
from devrt_pjrt.library import capsule
from devrt_pjrt.library.elf import problem_with
from support import python, shared_library


def elf(machine=62, kind=3):
    return (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + kind.to_bytes(2, "little")
        + machine.to_bytes(2, "little")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"hello, world, this is text", "it is no shared library"),
        (b"\x7fELF\x02\x01", "it is cut short"),
        (elf(machine=243), "it is for another processor (riscv)"),
        (elf(kind=2, machine=0xFFFF), "it is for another processor (number 65535)"),
    ],
)
def test_a_file_that_is_no_library_is_refused_before_it_is_opened(tmp_path, content, message):
    file = tmp_path / "plugin.so"
    file.write_bytes(content)
    with pytest.raises(PluginLoadError) as caught:
        devrt_pjrt.library_for("broken", str(file))
    assert message in str(caught.value)
    assert caught.value.path == str(file)
    assert caught.value.plugin == "broken"
    assert not devrt_pjrt.pjrt_plugin_loaded("broken")


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    assert problem_with(str(tmp_path)) == "it is a folder"
    with pytest.raises(PluginLoadError, match="there is no such file"):
        devrt_pjrt.library_for("broken", str(tmp_path / "none.so"))


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.6, 0.9])
def test_a_library_that_was_cut_short_is_refused(tmp_path, fake, share):
    whole = Path(fake).read_bytes()
    file = tmp_path / "plugin.so"
    file.write_bytes(whole[: int(len(whole) * share)])
    code = f"""
from devrt.errors import PluginLoadError
import devrt_pjrt as pjrt
try: pjrt.library_for("cut", {str(file)!r})
except PluginLoadError as error: print("refused")
"""
    # Where only what describes sections is missing, the loader says so itself, or does not mind.
    done = python(code, options=())
    assert done.stdout == "refused\n" or share > 0.8


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "plugin.so")
    with pytest.raises(PluginLoadError, match="it is no regular file"):
        devrt_pjrt.library_for("broken", str(tmp_path / "plugin.so"))


def test_a_path_with_a_zero_byte_is_refused():
    with pytest.raises(PluginLoadError, match="no file can have this name"):
        devrt_pjrt.library_for("broken", "a\0b")


@pytest.mark.parametrize("name", [None, 3, [], b"x"])
def test_a_platform_is_text(fake, name):
    for use in (
        lambda: devrt_pjrt.library_for(name, fake),
        lambda: devrt_pjrt.pjrt_plugin_loaded(name),
        lambda: devrt_pjrt.pjrt_plugin_initialized(name),
        lambda: devrt_pjrt.loaded_library(name),
    ):
        with pytest.raises(InvalidTypeError, match="plugin's name"):
            use()


def test_a_program_is_no_library():
    machine = os.uname().machine
    if machine != "x86_64":
        pytest.skip("the file is made for x86_64")
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(elf(kind=2))
        file.flush()
        assert "no shared library" in problem_with(file.name)


def test_a_library_without_the_function_is_refused():
    from devrt_pjrt import _native

    with pytest.raises(PluginLoadError, match="GetPjrtApi"):
        devrt_pjrt.library_for("broken", _native.__file__)


def test_a_missing_dependency_is_named(tmp_path):
    needed, user = tmp_path / "libdevrt_needed.so", tmp_path / "plugin.so"
    source = "int a(void) { return 1; }\nint b(void) { return a(); }\n"
    shared_library(needed, source)
    shared_library(user, source, "-Wl,--no-as-needed", str(needed))
    needed.unlink()
    with pytest.raises(PluginLoadError) as caught:
        devrt_pjrt.library_for("broken", str(user))
    assert "libdevrt_needed.so" in caught.value.missing
    assert "which is not found" in str(caught.value)


@pytest.mark.parametrize("value", [3, None, b"path", object()])
def test_a_library_is_a_path_or_a_capsule(value):
    with pytest.raises(PluginLoadError, match="must be a path or a capsule"):
        devrt_pjrt.library_for("broken", value)


def test_a_capsule_of_another_name_is_refused():
    import datetime  # noqa: F401  - its module keeps a capsule

    other = sys.modules["_datetime"].datetime_CAPI
    with pytest.raises(PluginLoadError, match="pjrt_c_api"):
        devrt_pjrt.library_for("broken", other)


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"FAKE_NO_TABLE": 1}, "returned nothing"),
        ({"FAKE_MAJOR": 1, "FAKE_MINOR": 3}, "version 1.3, and devrt uses 0.54 and later"),
        ({"FAKE_MINOR": 53}, "version 0.53, and devrt uses 0.54 and later: it is too old"),
        ({"FAKE_MINOR": 56}, "its table has another order"),
        ({"FAKE_STRUCT_SIZE": 24}, "a table of 24 bytes"),
    ],
)
def test_a_version_that_cannot_be_used_is_refused(child, switches, message):
    done = child("print(raised(library))\n", **switches)
    assert message in done.stdout


@pytest.mark.parametrize("minor", [54, 67, 81, 114, 500])
def test_versions_old_and_new_are_used(child, minor):
    done = child(
        "c = client(); print(c.pjrt_c_api_minor_version, np.asarray(c.buffer_from_pyval("
        "np.arange(3, dtype=np.int32))).tolist()); c.close(); print(counts())",
        FAKE_MINOR=minor,
    )
    assert done.stdout == f"{minor} [0, 1, 2]\n[0, 0, 0, 0, 0]\n"


def test_a_function_that_the_table_does_not_reach_is_unimplemented(child):
    done = child(
        """
        c = client()
        b = c.buffer_from_pyval(np.zeros(3, np.float32))
        print(c.devices()[0].memory_stats())
        error = raised(c.create_buffers_for_async_host_to_device, [((3,), "float32")])
        print(type(error).__name__, error.since, error)
        print(raised(c.compile_and_load, "module { func.func @main() { return } }"))
        """,
        FAKE_STRUCT_SIZE=40 + 8 * 80,
        FAKE_MINOR=57,
    )
    first, second, third = done.stdout.splitlines()
    assert "bytes_in_use" in first
    assert second.startswith("UnimplementedError (0, 60) the PJRT plugin 'fake'")
    assert "is of version 0.57, and the function came with 0.60" in second
    assert "PJRT_Client_Compile" in third


def test_a_failed_initialisation_is_final_and_reported_again(child):
    done = child(
        """
        import os
        first = raised(client)
        del os.environ["FAKE_FAIL"]
        second = raised(client)
        print(type(first).__name__, int(first.code), first.phase, str(first) == str(second))
        print(first)
        print(pjrt.pjrt_plugin_loaded("fake"), pjrt.pjrt_plugin_initialized("fake"))
        """,
        FAKE_FAIL="Plugin_Initialize",
        FAKE_CODE=10,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "PluginLoadError 10 initialize True"
    assert "This is final for this process" in lines[1]
    assert lines[2] == "True False"


def test_attributes_of_every_kind_are_read(child):
    done = child("print(library().attributes())")
    assert done.stdout.strip() == (
        "{'text': 'hello', 'number': -7, 'list': (1, 2, 3), 'real': 1.5, 'flag': True}"
    )


def test_names_stand_for_plugins(child):
    done = child(
        """
        print(pjrt.pjrt_plugin_loaded("a"), pjrt.pjrt_plugin_initialized("a"))
        capsule = pjrt.load_pjrt_plugin_dynamically("a", FAKE)
        print(pjrt.pjrt_plugin_loaded("a"), pjrt.pjrt_plugin_initialized("a"))
        pjrt.load_pjrt_plugin_with_c_api("b", capsule)
        pjrt.initialize_pjrt_plugin("b")
        same = pjrt.loaded_library("a") is pjrt.loaded_library("b")
        print(pjrt.pjrt_plugin_initialized("a"), same)
        print(type(capsule).__name__, repr(capsule).split('"')[1])
        c = pjrt.make_client(pjrt.loaded_library("b"), "b"); c.close()
        """
    )
    assert done.stdout == "False False\nTrue False\nTrue True\nPyCapsule pjrt_c_api\n"


def test_a_name_that_nobody_loaded_is_refused():
    with pytest.raises(InvalidArgumentError, match="no PJRT plugin 'nobody' is loaded"):
        devrt_pjrt.initialize_pjrt_plugin("nobody")


def test_a_name_stands_for_one_library(xla_cpu_library, fake):
    devrt_pjrt.library_for("taken", fake)
    with pytest.raises(PluginError, match="'taken' stands for"):
        devrt_pjrt.load_pjrt_plugin_dynamically("taken", xla_cpu_library)


def test_a_capsule_holds_the_table_itself(fake):
    library = devrt_pjrt.library_for("capsuled", fake)
    again = devrt_pjrt.library_for("capsuled_too", library.capsule())
    assert capsule.unwrap(library.capsule()) == capsule.unwrap(again.capsule())
    assert again.version == library.version == (0, 114)
