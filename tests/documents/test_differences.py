"""What the page of differences from JAX says of devrt is so."""

import pytest

from support import python

pytest.importorskip("devrt_cpu")

RUNS = {
    "layouts without names are from minor to major": """
        from devrt.layout import Layout
        assert Layout((1, 0)) == Layout(major_to_minor=(0, 1))
        assert Layout((1, 0)).tiling() == []
    """,
    "arrays with unreduced axes are not put": """
        import numpy as np, devrt
        from devrt.sharding import NamedSharding, P
        sharding = NamedSharding(devrt.make_mesh((1,), ("x",)), P(unreduced={"x"}))
        try:
            devrt.device_put(np.ones(2), sharding)
        except devrt.errors.UnimplementedError as error:
            assert "summand" in str(error)
        else:
            raise AssertionError
    """,
    "donate=True onto the same place deletes the source": """
        import numpy as np, devrt
        x = devrt.device_put(np.ones(4), devrt.devices("cpu")[0])
        y = devrt.device_put(x, devrt.devices("cpu")[0], donate=True)
        assert x.is_deleted() and not y.is_deleted()
    """,
    "an abstract mesh takes any memory kind": """
        from devrt.sharding import AbstractMesh, NamedSharding, P
        sharding = NamedSharding(AbstractMesh((2,), ("x",)), P("x"), memory_kind="mine")
        assert sharding.memory_kind == "mine"
    """,
    "backends() lists what is live": """
        import devrt
        devrt.config.update("platforms", "cpu")
        assert list(devrt.backends()) == ["cpu"]
    """,
    "fail_quietly=False warns and takes the next platform": """
        import warnings
        from devrt import errors, runtime

        def fail():
            raise RuntimeError("no driver")

        runtime.register_backend_factory("mine", fail, priority=1000, fail_quietly=False)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert "mine" not in runtime.backends()
        assert any("'mine' could not be initialised" in str(w.message) for w in seen)
        try:
            runtime.get_backend("mine")
        except errors.BackendInitializationError as error:
            assert "no driver" in str(error)
        else:
            raise AssertionError
    """,
    "fail_quietly=True says nothing": """
        import warnings
        from devrt import runtime

        def fail():
            raise RuntimeError("no driver")

        runtime.register_backend_factory("mine", fail, priority=1000, fail_quietly=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert "mine" not in runtime.backends()
        assert not any("mine" in str(w.message) for w in seen)
    """,
}


@pytest.mark.parametrize("name", RUNS)
def test_devrt_does_what_the_page_says(name):
    python(RUNS[name], options=())
