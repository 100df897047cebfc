"""What importing devrt does not do: each package is brought in by its first use."""

import importlib.util

import pytest

from support import run_python

# NumPy and the backends are the expensive ones; importlib.metadata reads every distribution.
SLOW = [
    *("numpy", "ml_dtypes", "rich", "click", "pluggy", "sklearn", "PIL", "ctypes"),
    *("importlib.metadata", "email", "asyncio"),
    *("devrt_acme", "devrt_cpu", "devrt_cuda", "devrt_rocm", "devrt_tpu"),
]

REPORT = f"""
import sys
libraries = []
def hook(event, args):
    if event == "ctypes.dlopen" or event == "import" and args[1]:  # an import of a library's file
        libraries.append(str(args[0] if event == "ctypes.dlopen" else args[1]))
sys.addaudithook(hook)
exec(sys.argv[1])
print(sorted(name for name in {SLOW!r} if name in sys.modules))
print([library for library in libraries if "lib-dynload" not in library])
"""


def outcome(run_python, code):
    result = run_python("-I", "-c", REPORT, code)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    modules, libraries = result.stdout.splitlines()
    return modules, libraries


@pytest.mark.parametrize(
    "code",
    [
        "import devrt",
        "import devrt; devrt.__all__; dir(devrt)",
        "import devrt.errors, devrt.records, devrt._config.layers, devrt.dtypes",
        "import devrt.numpy; dir(devrt.numpy)",
    ],
)
def test_importing_brings_in_nothing_slow(run_python, code):
    assert outcome(run_python, code) == ("[]", "[]")


def test_the_report_would_tell(run_python):
    modules, libraries = outcome(run_python, "import numpy")
    assert "numpy" in modules
    assert "numpy" in libraries


def test_finding_the_plugins_needs_no_metadata_and_no_numpy(run_python):
    code = "from devrt.plugins import installed_plugins; installed_plugins()"
    modules, libraries = outcome(run_python, code)
    for name in ("numpy", "importlib.metadata", "devrt_acme", "rich", "click"):
        assert f"'{name}'" not in modules
    assert libraries == "[]"


def test_every_public_name_is_there_and_no_other_promise(run_python):
    code = "import devrt; print([n for n in devrt.__all__ if not hasattr(devrt, n)])"
    assert run_python("-c", code).stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = __import__("devrt").nonsense


def test_the_command_line_imports_no_backend_for_its_version(run_python):
    modules, _ = outcome(
        run_python,
        "from click.testing import CliRunner; from devrt.cli import main;"
        "assert CliRunner().invoke(main, ['--version']).exit_code == 0",
    )
    assert "numpy" not in modules
    assert "devrt_acme" not in modules


def test_the_facade_needs_the_standard_library_only():
    import devrt

    folder = devrt.__file__.rpartition("devrt")[0].rstrip("/\\")
    code = f"import sys; sys.path.append({folder!r}); import devrt"
    result = run_python("-I", "-S", "-c", code, status=None)
    assert (result.returncode, result.stderr) == (0, "")


# What a first devrt.devices() can do without; each takes milliseconds to import.
NOT_FOR_A_START = [
    *("numpy", "ml_dtypes", "rich", "click", "json", "subprocess", "asyncio", "email"),
    *("importlib.metadata", "importlib_metadata", "importlib.resources", "concurrent.futures"),
    *("dataclasses", "difflib", "glob", "logging", "pathlib", "tempfile", "tomllib", "urllib"),
    *("devrt.arrays", "devrt.cli", "devrt.doctor", "devrt.dtypes", "devrt.sharding"),
    *(
        "devrt.probing.isolated",
        "devrt.contract.installation",
        "devrt.plugins.discovery.known",
        "devrt.plugins.discovery.pjrt_env",
    ),
    *("devrt.runtime.deadline", "devrt.runtime.failures", "devrt.runtime.pjrt_questions"),
    *("devrt.runtime.register", "devrt.xla_client"),
]
START = """
import sys
before = set(sys.modules)
import devrt
assert devrt.devices({platform!r})[0].platform == "cpu"
print(sorted(name for name in {names!r} if name in sys.modules and name not in before))
"""


@pytest.mark.parametrize("platform", ["cpu", None])
def test_a_start_brings_in_little(run_python, tmp_path, platform):
    pytest.importorskip("devrt_cpu")
    code = START.format(platform=platform, names=NOT_FOR_A_START)
    environ = {"DEVRT_FORBID_PLATFORMS": "acme", "HOME": str(tmp_path)}
    result = run_python("-c", code, **environ)
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr


@pytest.mark.parametrize("name", NOT_FOR_A_START)
def test_the_names_are_those_of_modules(name):
    """A misspelt name would never be seen."""
    if name != "importlib_metadata":
        assert importlib.util.find_spec(name) is not None
