"""The names of ``jaxlib.xla_client`` for PJRT plugins, through whichever loader is installed."""

import pytest

from devrt import xla_client
from devrt.contract import transfer_server_of
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError

KEEPING = """PjrtLoader(
        make_client=make_client, make_topology=make_topology,
        load=lambda name, library: OPEN.setdefault(name, library),
        loaded=OPEN.get, initialize=READY.add, is_initialized=READY.__contains__)"""


@pytest.fixture
def installed(plugins, add_loader, as_default):
    """Return a function that makes a runtime with a loader the default one, for the test."""

    def use(loader=None):
        if loader is not None:
            add_loader(loader)
            module = plugins.path / "loading_pkg" / "plugin.py"
            module.write_text("OPEN = {}\nREADY = set()\n" + module.read_text())
        as_default(plugins.runtime())

    return use


def test_a_library_goes_by_its_name(installed):
    installed(KEEPING)
    assert not xla_client.pjrt_plugin_loaded("mine")
    assert xla_client.load_pjrt_plugin_dynamically("mine", "/lib/mine.so") == "/lib/mine.so"
    assert xla_client.pjrt_plugin_loaded("mine")
    assert not xla_client.pjrt_plugin_initialized("mine")
    xla_client.initialize_pjrt_plugin("mine")
    assert xla_client.pjrt_plugin_initialized("mine")
    client = xla_client.make_c_api_client("mine", {"count": 3})
    assert client.device_count() == 3
    assert client.platform == "mine"


def test_a_topology_is_described_by_a_table(installed):
    installed(KEEPING)
    table = object()
    made = xla_client.make_c_api_device_topology(table, "2x2", wrap=1)
    assert made == (table, "", "2x2", {"wrap": 1})
    with pytest.raises(InvalidTypeError, match=r"not the path '/lib/mine\.so'"):
        xla_client.make_c_api_device_topology("/lib/mine.so")


def test_a_name_that_is_not_loaded(installed):
    installed(KEEPING)
    with pytest.raises(InvalidArgumentError, match="'other' is loaded"):
        xla_client.make_c_api_client("other")


def test_a_client_comes_with_its_transfer_server(installed):
    installed(KEEPING)
    xla_client.load_pjrt_plugin_dynamically("mine", "/lib/mine.so")
    client = xla_client.make_c_api_client("mine", transfer_server_factory=lambda c: [c.platform])
    assert transfer_server_of(client) == ["mine"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("load_pjrt_plugin_dynamically", ("mine", "/lib/mine.so")),
        ("load_pjrt_plugin_with_c_api", ("mine", object())),
        ("initialize_pjrt_plugin", ("mine",)),
        ("make_c_api_client", ("mine",)),
        ("make_c_api_device_topology", (object(), "")),
        ("make_tpu_client", ("/lib/mine.so",)),
    ],
)
def test_without_a_loader_the_error_names_the_wheel(installed, name, arguments):
    installed()
    with pytest.raises(UnimplementedError, match=r"Install the PJRT loader \(devrt-tpu\)"):
        getattr(xla_client, name)(*arguments)
    assert not xla_client.pjrt_plugin_loaded("mine")
    assert not xla_client.pjrt_plugin_initialized("mine")


def test_a_loader_that_keeps_no_names_says_so(installed):
    installed("PjrtLoader(make_client=make_client)")
    with pytest.raises(
        UnimplementedError,
        match=r"'mine' cannot be loaded: the installed PJRT loader opens no libraries by name",
    ):
        xla_client.load_pjrt_plugin_dynamically("mine", "/lib/mine.so")
    assert not xla_client.pjrt_plugin_loaded("mine")
