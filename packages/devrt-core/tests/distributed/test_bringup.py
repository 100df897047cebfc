"""What a process finds out of its job, and joining and leaving it; `devrt launch` has more."""

import socket
import subprocess
import sys

import pytest

from devrt import distributed
from devrt._clusters import cluster_named, membership, seen_clusters
from devrt.doctor import diagnose
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
    StatusCode,
)

SLURM = {
    "SLURM_JOB_ID": "5000",
    "SLURM_STEP_NODELIST": "node[007-9,12],other",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
OPEN_MPI_4 = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
}
OPEN_MPI_5 = {**OPEN_MPI_4, "PMIX_NAMESPACE": "prterun-a-77@1"}
del OPEN_MPI_5["OMPI_MCA_orte_hnp_uri"]
MPICH = {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}
TPUS = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b,c"}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "lead",
    "MASTER_PORT": "29500",
}
SLICES = {
    "MEGASCALE_COORDINATOR_ADDRESS": "lead:99",
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "5"}


@pytest.mark.parametrize(
    ("environ", "title", "reported"),
    [
        (SLURM, "Slurm", ("node007:62344", 8, 3, 1)),
        ({**SLURM, "SLURM_STEP_NUM_NODES": "1"}, "Slurm", ("localhost:62344", 8, 3, 1)),
        (OPEN_MPI_4, "Open MPI", ("10.96.0.1:64591", 4, 2, 0)),
        ({**OPEN_MPI_5, **SLURM}, "Open MPI", (None, 4, 2, 0)),
        (
            {**OPEN_MPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
            "Open MPI",
            ("localhost:61742", 4, 2, 0),
        ),
        (MPICH, "MPICH", (None, 2, 1, 1)),
        (TPUS, "TPU VMs", ("a:8476", 3, 1, None)),
        ({**TPUS, **SLICES}, "TPU VMs", ("lead:8476", 6, 4, None)),
        ({**TPUS, "TPU_WORKER_HOSTNAMES": "a"}, "TPU VMs", ("localhost:8476", 1, 1, None)),
        ({**SLURM, **TORCHRUN}, "torchrun", ("lead:62268", 8, 5, 1)),
        (POD, "Kubernetes", (None, None, 5, None)),
    ],
)
def test_what_a_cluster_tells(environ, title, reported):
    seen = seen_clusters(environ)[0]
    assert (seen.title, seen.problems) == (title, ())
    assert reported == (
        seen.coordinator_address,
        seen.num_processes,
        seen.process_id,
        seen.local_process_id,
    )
    assert set(seen.variables.items()) <= set(environ.items())


def test_what_is_given_comes_before_variables_and_those_before_the_cluster():
    environ = {**SLURM, "DEVRT_COORDINATOR_ADDRESS": "here:1", "JAX_NUM_PROCESSES": "9"}
    found = membership({"num_processes": 10}, environ=environ)
    assert dict(found.sources) == {
        "num_processes": "given",
        "coordinator_address": "DEVRT_COORDINATOR_ADDRESS",
        "process_id": "Slurm",
        "local_device_ids": "Slurm",
    }
    assert found.values["num_processes"] == 10
    # The launcher's processes within one of Slurm's: its number is not theirs.
    found = membership(environ={**SLURM, "DEVRT_PROCESS_ID": "0"})
    assert "local_device_ids" not in found.values
    found = membership(environ=SLURM, detects=False)
    assert found.missing == ["coordinator_address", "num_processes", "process_id"]


def test_the_doctor_shows_the_cluster_and_what_is_wrong_with_it(plugins, tmp_path):
    def examined(environ):
        with plugins.runtime(**environ) as runtime:
            report = diagnose(runtime=runtime, root=tmp_path, level="metadata")
        found = [f for f in report.findings if f.code.startswith("cluster")]
        return report.to_dict()["cluster"], [(f.code, f.severity) for f in found], found

    shown, codes, _ = examined(SLURM)
    assert codes == []
    assert shown["sources"]["process_id"] == "Slurm"
    assert shown["seen"][0]["variables"] == SLURM
    shown, codes, found = examined(POD)
    assert codes == [("cluster-incomplete", "info")]
    assert shown["missing"] == ["coordinator_address", "num_processes"]
    assert "DEVRT_COORDINATOR_ADDRESS" in found[0].message
    shown, codes, found = examined({**SLURM, "SLURM_NTASKS": "many"})
    assert codes == [("cluster-malformed", "warning")]
    assert "SLURM_NTASKS is 'many'" in found[0].message
    assert examined({})[1] == []
    job = {"DEVRT_NUM_PROCESSES": "1", "DEVRT_PROCESS_ID": "0"}
    for given, words in (
        ({"DEVRT_COORDINATOR_ADDRESS": "localhost:99999"}, "'localhost:99999' is no address"),
        ({"DEVRT_COORDINATOR_ADDRESS": "::1:80"}, r"write [::1]:80"),
        ({"DEVRT_COORDINATOR_ADDRESS": "h:1", "DEVRT_PROCESS_ID": "4"}, "process_id is 4 (DEVRT_P"),
        ({"DEVRT_COORDINATOR_ADDRESS": "h:0", "DEVRT_NUM_PROCESSES": "2"}, "has no port that"),
    ):
        _, codes, found = examined({**job, **given})
        assert codes == [("cluster-malformed", "warning")]
        assert words in found[0].message
    for address in ("localhost:0", "etcd://a,b/jobs/1", "jaxlib://localhost:1"):
        assert examined({**job, "DEVRT_COORDINATOR_ADDRESS": address})[1] == []


@pytest.fixture
def alone(monkeypatch, unused_runtime):
    """No variable of a cluster, nor of a job, and no client of devices."""
    for name in ("COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID", "LOCAL_DEVICE_IDS"):
        for prefix in ("DEVRT", "JAX"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)
    for seen in seen_clusters():
        monkeypatch.delenv(next(iter(seen.variables)))
    yield monkeypatch
    distributed.shutdown()


def test_a_job_of_one_is_joined_once_and_left_twice(alone):
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    state = distributed.global_state
    assert (state.process_id, state.num_processes, state.client) == (0, 1, None)
    for _ in range(2):
        distributed.initialize("localhost:0", 1, 0, partition_index=3)
        assert distributed.is_initialized()
        assert (state.coordinator_address, state.partition_index) == (state.service.address, 3)
        state.client.key_value_set("key", "value")
        with pytest.raises(DistributedError, match="only be called once") as caught:
            distributed.initialize("localhost:0", 1, 0)
        assert caught.value.code is StatusCode.FAILED_PRECONDITION
        distributed.shutdown()
        distributed.shutdown()
        assert not distributed.is_initialized()
        assert (state.service, state.partition_index) == (None, None)


def test_a_job_that_cannot_be_joined_is_an_error_and_leaves_nothing(alone):
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    join = distributed.initialize
    for given, words in (
        ((), "not given: coordinator_address, num_processes, process_id"),
        (("localhost:1",), "not given: num_processes, process_id"),
        (("localhost", 1, 0), "host:port"),
        (("localhost:1", 2, 2), r"process_id is 2 \(given\) and num_processes 2"),
        (("localhost:0", 2, 0), "no port"),
        (("192.0.2.1:80", 2, 0), "192.0.2.1.*allow_remote"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            join(*given)
    with pytest.raises(InvalidTypeError, match="num_processes"):
        join("localhost:1", "2", 0)
    with pytest.raises(InvalidTypeError, match="partition_index must be an integer, not True"):
        join("localhost:1", 2, 0, partition_index=True)
    for given, words in (
        ({"partition_index": 1 << 30}, "partition_index must be at least 0"),
        ({"partition_index": 1, "slice_index": 2}, r"not in 1 \(partition_index\), 2 \(slice_"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            join("localhost:1", 2, 0, **given)
    for method, words in (("slurm", "SLURM_PROCID"), ("lsf", "no cluster is called 'lsf'")):
        with pytest.raises(InvalidArgumentError, match=words):
            join(cluster_detection_method=method)
    for name, value in POD.items():
        alone.setenv(name, value)
    with pytest.raises(InvalidArgumentError, match=r"Kubernetes.*headless"):
        join()
    alone.setenv("DEVRT_NUM_PROCESSES", "two")
    with pytest.raises(InvalidArgumentError, match="DEVRT_NUM_PROCESSES is 'two'"):
        join("localhost:1")
    with socket.create_server(("localhost", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(DistributedError, match="in use"):
            join(address, 1, 0)  # a variable that is not read may be wrong
    assert not distributed.is_initialized()
    with pytest.raises(DeadlineExceededError, match=r"process 1.*did not"):
        join(address, 2, 0, initialization_timeout=0.2)
    assert distributed.global_state.service is None
    join(address, 1, 0)  # the service that failed has ended


WITHOUT_EXTRA = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("google", "grpc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from devrt import distributed
distributed.initialize("localhost:1", 2, int(sys.argv[1]), initialization_timeout=1)
"""


@pytest.mark.parametrize("process", ["0", "1"])
def test_every_process_says_that_the_extra_is_missing(process):
    command = [sys.executable, "-c", WITHOUT_EXTRA, process]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    words = "DistributedError: the coordination service needs grpcio and protobuf, and "
    assert words in done.stderr.splitlines()[-1]
    assert "Install devrt-core with its extra 'distributed'" in done.stderr


def test_a_cluster_by_name():
    assert cluster_named("kubernetes", POD).title == "Kubernetes"
    assert cluster_named("gketpu", TPUS).num_processes == 3
