"""A library that the environment names, or that a wheel brings, as a platform of devrt."""

import pytest

from support import python


def run(code, **env):
    return python(code, **env).stdout


def test_a_library_that_the_environment_names(xla_cpu_library):
    output = run(
        "import devrt\n"
        "a = devrt.device_put([1.0, 2.0], devrt.devices('xlacpu')[0])\n"
        "print(a)\n"
        "from devrt.runtime import backend_pjrt_c_api_version, using_pjrt_c_api\n"
        "print(using_pjrt_c_api('xlacpu'))\n"
        "print(backend_pjrt_c_api_version('xlacpu'))\n",
        PJRT_NAMES_AND_LIBRARY_PATHS=f"xlacpu:{xla_cpu_library}",
    )
    assert output.splitlines()[1:] == ["True", "(0, 81)"]
    assert "1.0" in output or "1." in output


def test_a_configuration_file_gives_the_devices(xla_cpu_library, tmp_path):
    import json

    file = tmp_path / "plugin.json"
    options = {"cpu_device_count": 3}
    file.write_text(json.dumps({"library_path": xla_cpu_library, "create_options": options}))
    output = run(
        "import devrt, numpy as np\n"
        "from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        "devices = devrt.devices('many')\n"
        "mesh = Mesh(np.array(devices), ('x',))\n"
        "a = devrt.device_put(np.arange(6.0), NamedSharding(mesh, P('x')))\n"
        "print(len(devices), np.asarray(a).sum(), [s.data.device for s in a.addressable_shards])\n",
        PJRT_NAMES_AND_LIBRARY_PATHS=f"many:{file}",
    )
    assert output.startswith("3 15.0")
    assert output.count("PjrtDevice") == 3


def test_a_wheel_that_brings_a_library(xla_cpu_library):
    output = run(
        "import devrt\n"
        "a = devrt.device_put(3.5, devrt.devices('xla_cpu_pjrt')[0])\n"
        "print(float(a), a.device.client.platform)\n"
    )
    assert output == "3.5 xla_cpu_pjrt\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"hello, this is no library", "it is no shared library"), (b"", "it is empty")],
)
def test_a_file_that_is_no_library_is_reported_without_opening_it(tmp_path, content, message):
    file = tmp_path / "bad.so"
    file.write_bytes(content)
    code = (
        "import devrt, sys\n"
        "try: devrt.devices('bad')\n"
        "except devrt.errors.DevrtError as error: print(error)\n"
        "print('devrt_pjrt._native' in sys.modules)\n"
    )
    printed = run(code, PJRT_NAMES_AND_LIBRARY_PATHS=f"bad:{file}")
    assert message in printed
    assert printed.endswith("False\n")


def test_a_topology_that_nobody_describes(xla_cpu_library):
    code = (
        "import devrt\n"
        "from devrt.runtime import make_pjrt_topology\n"
        "try: make_pjrt_topology('xla_cpu_pjrt', 'any')\n"
        "except devrt.errors.DevrtError as error: print(type(error).__name__, error)\n"
    )
    assert "UnimplementedError" in run(code)
