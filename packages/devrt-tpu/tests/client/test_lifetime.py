"""What a plugin's objects stand for, and until when: closing, forking, copying, collecting."""

import copy
import pickle

import numpy as np
import pytest

import devrt_pjrt
from devrt.errors import ClosedError, InvalidTypeError


@pytest.fixture
def client(xla_cpu_library):
    """Return a client that a test may close."""
    library = devrt_pjrt.library_for("xla_cpu_tests", xla_cpu_library)
    with devrt_pjrt.make_client(library, "xla_cpu_tests", {"cpu_device_count": 2}) as made:
        yield made


def test_a_clients_topology_goes_with_the_client(client):
    seen, unseen = client.topology(), client.topology()
    assert len(seen.descriptions()) == 2
    client.close()
    assert len(seen.descriptions()) == 2
    assert "2 devices" in repr(seen)
    for use in (
        seen.serialize,
        seen.get_attributes,
        unseen.descriptions,
        lambda: seen.platform_version,
        lambda: seen.compile("module {func}"),
    ):
        with pytest.raises(ClosedError):
            use()
    assert "unknown" in repr(unseen)


def test_nothing_that_has_one_owner_is_copied(client, add_text):
    made = client.buffer_from_pyval(np.arange(8, dtype=np.float32))
    device = client.devices()[0]
    handles = [
        client,
        client.connection.library,
        made,
        device,
        device.default_memory(),
        client.compile_and_load(add_text),
        client.compile_and_load(add_text).executable,
        client.topology(),
        client.create_buffers_for_async_host_to_device([((2,), "int8")]),
    ]
    for handle in handles:
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(InvalidTypeError, match="cannot be copied or pickled"):
                use(handle)
    assert np.asarray(made)[7] == 7


def test_the_child_of_a_fork_is_refused_whatever_it_asks(in_child):
    output = in_child(
        """
        import warnings; warnings.simplefilter("ignore")
        library = pjrt.loaded_library("tested")
        topology, add = client.topology(), client.compile_and_load(ADD)
        sent = client.create_buffers_for_async_host_to_device([((8,), "float32")])
        a = client.buffer_from_pyval(X)
        child = os.fork()
        if not child:
            output = set()
            for use in (
                lambda: pjrt.make_client(library, "again"), library.attributes,
                lambda: pjrt.make_topology(library, "again"), topology.serialize,
                lambda: topology.compile(ADD), lambda: client.compile_and_load(ADD),
                client.topology, add.cost_analysis, add.serialize, lambda: sent.buffer_size(0),
                lambda: client.deserialize_executable(b"x"), lambda: add.execute([a, a]),
                lambda: pjrt.deserialize_topology(library, "again", b"x"),
            ):
                try: use()
                except DevrtError as error: output.add(type(error).__name__)
                else: output.add("nothing")
            del topology, add, sent, a, client; gc.collect()
            os.write(1, f"{sorted(output)} ".encode()); os._exit(0)
        print(os.waitpid(child, 0)[1], np.asarray(add.execute([a, a])[0])[7])
        """,
        timeout=60,
    )
    assert output == "['ForkedError'] 0 14.0"


def test_a_closed_client_still_describes_its_devices(child):
    done = child(
        """
c = client(); d = c.devices()[0]; m = d.default_memory()
def described(): return d.id, d.device_kind, str(d), repr(d), d.process_index, m.kind, repr(m)
d2 = (o := client()).devices()[0]
expected = (d2.id, d2.device_kind, str(d2), repr(d2), d2.process_index,
            d2.default_memory().kind, repr(d2.default_memory()))
o.close(); c.close()  # c has not been requested any of it before
print(described() == expected, c.platform_version == o.platform_version, hasattr(d, "nope"))
"""
    )
    assert done.stdout == "True True False\n", done.stderr
