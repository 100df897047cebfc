"""jaxlib's service and clients in processes of their own, since jaxlib aborts the one it is in.

``JAXLIB_PYTHON`` names a Python that has jaxlib; without it this one is tried.
"""

import functools
import json
import os
import subprocess
import sys
import textwrap

import pytest

SERVICE = """
    import json, socket, sys
    from jaxlib import _jax
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    options = json.loads(sys.argv[2])
    service = _jax.get_distributed_runtime_service(address, int(sys.argv[1]), **options)
    print(address, flush=True)
    sys.stdin.read()
    service.shutdown()
"""
CLIENT = """
    import json, sys
    from jaxlib import _jax
    options = json.loads(sys.argv[3])
    client = _jax.get_distributed_runtime_client(sys.argv[1], int(sys.argv[2]), **options)
    for line in sys.stdin:
        name, given = json.loads(line)
        given = [one.encode("latin-1") if name.endswith("set_bytes") and i == 1 else one
                 for i, one in enumerate(given)]
        try:
            found = getattr(client, name)(*given)
            if name.endswith("dir_get_bytes"):
                found = [[key, value.decode("latin-1")] for key, value in found]
            elif isinstance(found, bytes):
                found = found.decode("latin-1")
            elif isinstance(found, dict):
                found = list(found.items())
            answer = [True, found]
        except Exception as error:
            answer = [False, str(error)]
        print(json.dumps(answer), flush=True)
"""


@functools.cache
def python_with_jaxlib():
    """Return a Python that has jaxlib's runtime, or skip."""
    python = os.environ.get("JAXLIB_PYTHON", sys.executable)
    tried = subprocess.run([python, "-c", "import jaxlib._jax"], capture_output=True, check=False)
    return python if tried.returncode == 0 else None


def _started(script, *arguments):
    python = python_with_jaxlib()
    if python is None:
        pytest.skip("jaxlib is not installed, and JAXLIB_PYTHON names no Python that has it")
    command = [python, "-c", textwrap.dedent(script), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, text=True, **pipes)


class JaxlibServiceProcess:
    """A service of jaxlib's; ``address`` is for devrt's clients, ``theirs`` for jaxlib's."""

    def __init__(self, size, **options):
        self.process = _started(SERVICE, size, json.dumps(options))
        self.theirs = self.process.stdout.readline().strip()
        self.address = f"jaxlib://{self.theirs}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


class JaxlibClientProcess:
    """A client of jaxlib's, with its methods; errors are RuntimeErrors with its words."""

    def __init__(self, address, number, **options):
        address = address.removeprefix("jaxlib://")
        self.process = _started(CLIENT, address, number, json.dumps(options))

    def __getattr__(self, name):
        return functools.partial(self._call, name)

    def close(self):
        """End the process, and with it the client."""
        self.process.kill()
        self.process.communicate()

    def _call(self, name, *given):
        given = [one.decode("latin-1") if isinstance(one, bytes) else one for one in given]
        self.process.stdin.write(json.dumps([name, given]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the client's process has ended"
        did_succeed, found = json.loads(line)
        if not did_succeed:
            raise RuntimeError(found)
        if name.endswith("dir_get_bytes"):
            return [(key, value.encode("latin-1")) for key, value in found]
        if name == "key_value_dir_get":
            return [tuple(row) for row in found]
        if name == "get_live_nodes":
            return dict(map(tuple, found)) if found and isinstance(found[0], list) else found
        return found.encode("latin-1") if name.endswith("get_bytes") else found
