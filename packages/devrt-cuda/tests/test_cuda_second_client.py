"""A second client of simulated devices in a process, which simulates one machine."""

import json
import subprocess
import sys

PROGRAM = """
import json
import devrt
from devrt.records import ClientContext
from devrt_cuda._platform import PLATFORM

def mock(devices, **options):
    options = {"mock_gpu_topology": devices, **options}
    return PLATFORM.make_client(ClientContext(options=options))

first, second, third = mock("4"), mock("2"), mock("2x3", node_id=1)
found = [len(each.local_devices()) for each in (first, second, third)]
found.append([device.id for device in third.local_devices()])
found.append(len(mock("4", allowed_devices={1, 3}).local_devices()))
for options in ({"devices": "8"}, {"devices": "2", "allowed_devices": {3}}):
    try:
        mock(**options)
    except devrt.errors.InvalidArgumentError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_a_second_client_has_the_devices_that_it_is_made_for():
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    *counts, larger, beyond = json.loads(ran.stdout)
    assert counts == [4, 2, 3, [3, 4, 5], 2]
    assert "this process simulates 4 already. Make the client with the most devices first" in larger
    assert "allowed_devices names device 3, and 2 are simulated for this client" in beyond
