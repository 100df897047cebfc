"""What modules made for JAX register, recorded in a child process without JAX."""

import os
import sys

import pytest

from devrt.doctor import diagnose
from devrt.plugins.discovery.registered import registered
from devrt.probing import entries

# -- what is recorded -----------------------------------------------------------------------------


def test_the_platform_is_the_name_that_initialize_registers(wheels):
    library = wheels.register("'Zip', priority=500, library_path=library, options=None")
    (guess,) = wheels.refs()
    assert (guess.platform, guess.is_guess) == ("pjrt_plugin_zap", True)
    (ref,) = wheels.settled()
    assert (ref.platform, ref.distribution, ref.library) == ("zip", "zap-wheel", library)
    assert (ref.source, ref.is_guess, ref.problem) == (guess.source, False, "")
    (candidate,) = wheels.registry().candidates(("zip",))
    assert candidate.priority == 500


def test_a_module_of_the_namespace_package(wheels):
    wheels.register(entry="", module="jax_plugins.zap")
    (ref,) = wheels.settled()
    assert (ref.platform, ref.source) == ("zip", "namespace package (jax_plugins)")


def test_options_of_every_kind(wheels):
    options = "{'a': 1, 'b': True, 'c': 2.5, 'd': 'x', 'e': [1, 2]}"
    wheels.register(f"'zip', library_path=library, options={options}")
    (ref,) = wheels.settled()
    assert registered(ref).options == {"a": 1, "b": True, "c": 2.5, "d": "x", "e": [1, 2]}
    assert registered(ref).options["b"] is True
    assert registered(ref).lost == ()


def test_options_given_as_a_callable_are_requested_in_the_child(wheels):
    wheels.register("'zip', library_path=library, options=lambda: {'n': len('abc')}")
    (ref,) = wheels.settled()
    assert registered(ref).options == {"n": 3}


def test_options_that_no_client_takes_are_left_out_and_named(wheels):
    wheels.register("'zip', library_path=library, options={'a': 1, 'f': print, 'n': None}")
    (ref,) = wheels.settled()
    assert registered(ref).options == {"a": 1}
    assert [text.partition(":")[0] for text in registered(ref).lost] == ["f", "n"]


def test_options_of_numpy_are_those_of_python(wheels):
    before = "import numpy as np"
    options = "{'a': np.int64(7), 'b': np.bool_(True), 'e': [np.int32(1)]}"
    wheels.register(f"'zip', library_path=library, options={options}", before)
    (ref,) = wheels.settled()
    assert registered(ref).options == {"a": 7, "b": True, "e": [1]}


def test_variables_that_it_sets_are_set_before_its_library_is_used(wheels, add_loader, monkeypatch):
    monkeypatch.setenv("ZAP_OLD", "here")
    monkeypatch.setenv("ZAP_HOME", "")  # so that it is put back in the end
    monkeypatch.delenv("ZAP_HOME")
    before = "os.environ['ZAP_HOME'] = os.path.dirname(__file__); del os.environ['ZAP_OLD']"
    library = wheels.register("'zip', library_path=library, options={'count': 3}", before)
    add_loader()
    with wheels.runtime() as runtime:
        assert "ZAP_HOME" not in os.environ
        client = runtime.get_backend("zip")
        assert len(client.devices()) == 3
        assert os.environ["ZAP_HOME"] == os.path.dirname(library)
        assert "ZAP_OLD" not in os.environ


def test_two_registrations_of_one_module(wheels):
    second = "xb.register_plugin('zop', priority=7, library_path='/opt/zop.so')"
    wheels.register(after=second)
    refs = wheels.settled()
    assert [(ref.platform, os.path.basename(ref.library)) for ref in refs] == [
        ("zip", "pjrt_zap.so"),
        ("zop", "zop.so"),
    ]
    priorities = {c.ref.platform: c.priority for c in wheels.registry().candidates()}
    assert priorities == {"zip": 400, "zop": 7}


def test_a_function_table_in_place_of_a_path(wheels):
    library = wheels.register("'zip', priority=3, c_api=object()")
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library) == ("zip", library)
    assert registered(ref).priority == 3
    assert registered(ref).unknown_library == "it registers a function table, not a library"


def test_a_library_that_it_opens_by_itself(wheels):
    before = (
        "from jax._src.lib import xla_client; "
        "api = xla_client.load_pjrt_plugin_dynamically('zip', '/opt/other.so')"
    )
    wheels.register("'zip', c_api=api", before)
    (ref,) = wheels.settled()
    assert ref.library == "/opt/other.so"


def test_a_backend_factory_gives_its_name_and_the_library_of_the_wheel(wheels):
    source = """
        from jax._src import xla_bridge

        def initialize():
            xla_bridge.register_backend_factory("zip", print, priority=9)
    """
    library = wheels.add(source)
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library, registered(ref).priority) == ("zip", library, 9)


MUCH_OF_JAX = """
    import os
    import jax, jax.lax, jax.numpy as jnp
    from jax._src import config, random
    from jax._src.lib import xla_client
    from jax.extend import core
    from jax.interpreters import ad
    from jax.interpreters.mlir import ir, register_lowering
    from jaxlib.mlir import ir as other_ir
    from jaxlib.plugin_support import import_from_plugin
    import jax._src.xla_bridge as xb

    extension = import_from_plugin("zap", "extension")

    class Primitive(core.Primitive):
        pass

    @jax.jit
    def f(x: jax.Array | None, y: ir.Operation) -> other_ir.Type:
        return jnp.sin(x)

    def initialize():
        assert not config.jax_platforms.value
        assert jax.config.jax_platforms is None
        assert xb.ZAP_VISIBLE_DEVICES.value == "all"
        assert jax.__version_info__ >= (0, 5) and xla_client._version > 300
        assert extension is None
        options = xla_client.generate_pjrt_gpu_plugin_options()
        options["platform_name"] = "ZIP"
        library = os.path.join(os.path.dirname(__file__), "pjrt_zap.so")
        c_api = xb.register_plugin("zip", priority=500, library_path=library, options=options)
        xla_client.register_custom_call_handler("ZIP", lambda *args: c_api)
        primitive = Primitive()
        ad.primitive_jvps[core.Primitive("p")] = f
        register_lowering(core.Primitive("p").bind, f, platform="zip")
        jax.nn.gelu = f
"""


def test_much_of_jax_may_be_named(wheels):
    wheels.add(MUCH_OF_JAX)
    (ref,) = wheels.settled()
    known = registered(ref)
    assert (ref.platform, known.failed, known.ended) == ("zip", "", "")
    assert known.options["platform_name"] == "ZIP"


# -- what is not ----------------------------------------------------------------------------------


OK = "'zip', library_path=library"


@pytest.mark.parametrize(
    ("before", "arguments", "why"),
    [
        ("raise OSError('no card')", OK, "raised OSError: no card in its initialize()"),
        ("assert False", OK, "it raised AssertionError in its initialize()"),
        ("import no_zap_module", OK, "No module named 'no_zap_module'"),
        ("os._exit(7)", OK, "ended the process with exit code 7 in its initialize()"),
        ("raise SystemExit(3)", OK, "raised SystemExit: 3"),
        ("os.kill(os.getpid(), 11)", OK, "was killed by SIGSEGV in its initialize()"),
        ("import jaxlib.cutting_edge", OK, "(of JAX it requested jaxlib.cutting_edge)"),
        (
            *("import jax; assert jax.local_device_count() < 9", OK),
            "(of JAX it requested jax.local_device_count())",
        ),
        ("pass", "'a b', library_path=library", "'a b' is no platform's name"),
        ("pass", "'zip', priority='high', library_path=library", "priority of 'zip' is an integer"),
        ("pass", "'zip', library_path=xb.somewhere", "requested jax._src.xla_bridge.somewhere"),
    ],
)
def test_a_module_that_fails_keeps_its_entry_points_name(wheels, before, arguments, why):
    library = wheels.register(arguments, before)
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library) == ("pjrt_plugin_zap", library)
    assert why in registered(ref).failed
    (candidate,) = wheels.registry().candidates(("pjrt_plugin_zap",))
    assert candidate.priority == 100


def test_a_module_that_cannot_be_imported_keeps_it_too(wheels):
    wheels.add("import os\nraise ValueError('at once')")
    (ref,) = wheels.settled()
    assert registered(ref).failed == "it raised ValueError: at once while it was imported"


def test_a_module_that_hangs_is_stopped(wheels, monkeypatch):
    monkeypatch.setattr(entries, "_SECONDS", 1.5)
    wheels.register(before="import time; time.sleep(600)")
    (ref,) = wheels.settled()
    assert registered(ref).failed == "it did not finish within 1.5 s in its initialize()"


@pytest.mark.parametrize(
    "after",
    [
        "raise RuntimeError('no extension')",
        "os._exit(1)",
        "os.abort()",
        "import time; time.sleep(600)",
        "import jax; bool(jax.patched)",
    ],
)
def test_what_was_registered_before_it_failed_counts(wheels, monkeypatch, after):
    monkeypatch.setattr(entries, "_SECONDS", 3.0)
    wheels.register("'zip', priority=2, library_path=library, options={'n': 1}", after=after)
    (ref,) = wheels.settled()
    known = registered(ref)
    assert (ref.platform, known.priority, known.options) == ("zip", 2, {"n": 1})
    assert known.ended


def test_what_it_prints_is_no_answer_and_is_not_shown(wheels, capfd):
    before = "print('x' * 100000); os.write(1, b'{}'); os.write(2, b'{}')"
    wheels.register(before=before)
    (ref,) = wheels.settled()
    assert ref.platform == "zip"
    assert capfd.readouterr() == ("", "")


JAX = "import pathlib; pathlib.Path(__file__).with_name('imported').touch()"


def test_jax_is_not_imported_where_it_is_installed(wheels):
    for name in ("jax", "jax/_src", "jaxlib"):
        (wheels.path / name).mkdir()
        (wheels.path / name / "__init__.py").write_text(JAX)
    (wheels.path / "jax/_src/xla_bridge.py").write_text(JAX)
    wheels.register(before="import jax, jaxlib, jax.numpy")
    (ref,) = wheels.settled()
    assert ref.platform == "zip"
    assert not list(wheels.path.glob("jax*/**/imported"))


def test_nothing_of_it_is_imported_here(wheels):
    wheels.register()
    wheels.settled()
    assert not {"zap_jax", "jax", "jaxlib"} & set(sys.modules)


def test_a_module_that_no_distribution_brings_is_not_run(wheels):
    library = wheels.register(
        before="open(__file__ + '.ran', 'w')", module="jax_plugins.zap", entry=""
    )
    (wheels.path / "zap_wheel-1.0.dist-info" / "RECORD").write_text("")
    (ref,) = wheels.settled()
    assert (ref.platform, ref.distribution) == ("zap", "(namespace)")
    assert registered(ref).failed.startswith("no installed distribution brings it")
    assert not os.path.exists(f"{os.path.dirname(library)}/__init__.py.ran")


# -- entries without a backend --------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import os\ndef initialize(): pass",
        "import jax\ndef initialize(): return jax.numpy",
        "def initialize(): pass",
    ],
)
def test_an_entry_that_registers_nothing_is_no_backend_and_no_error(wheels, source, plugins):
    wheels.add(source)
    plugins.add("one")
    registry = wheels.registry()
    assert [candidate.ref.platform for candidate in registry.candidates()] == ["one"]
    with wheels.runtime() as runtime:
        assert runtime.get_backend().platform == "one"
        report = diagnose(runtime=runtime, root=wheels.path)
    assert report.findings == ()
    (entry,) = [row for row in report.plugins if row.distribution == "zap-wheel"]
    assert (entry.state, entry.reason) == (
        "adds",
        "its module 'zap_jax' registers no backend on this machine",
    )


def test_a_module_that_only_marks_where_the_library_is(wheels):
    library = wheels.add("import os")
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library, registered(ref).failed) == ("pjrt_plugin_zap", library, "")


def test_asking_for_an_entry_that_registers_nothing_says_so(wheels):
    wheels.add("import os\ndef initialize(): pass")
    with wheels.runtime() as runtime, pytest.raises(Exception, match="registers no backend on"):
        runtime.get_backend("pjrt_plugin_zap")
