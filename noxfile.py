"""The matrix: the checks that need more than the one environment that `make test` uses."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nox

ROOT = Path(__file__).parent
STUB_TEST = "packages/devrt-cpu/tests/client/test_stub.py"
FUZZ = "packages/devrt-cpu/tests/peer/fuzz_programs.py"
FUZZ_JIT = "packages/devrt-cpu/tests/peer/fuzz_jit.py"
EXPORTS = "packages/devrt-cpu/tests/peer/check_exports.py"
JAX_VERSIONS = "0.4.30 0.4.35 0.4.38 0.5.3 0.6.2 0.7.2 0.8.3 0.9.2 0.10.2".split()
ENGINES = ("xla-cpu-pjrt", "fastatomstruct-xla-cpu", "lammps-jax-pjrt-cpu")
OF_ENGINES = (
    "packages/devrt-cpu/tests/programs",
    "packages/devrt-cpu/tests/client/test_loading.py",
    "packages/devrt-tpu/tests/programs",
    "packages/devrt-core/tests/examples",
    "tests/integration",
    "tests/quirks",
)
OF_STABLEHLO = (
    "packages/devrt-cpu/tests/programs/test_stablehlo.py",
    "packages/devrt-tpu/tests/programs/test_cases.py",
)
INTEROP = (
    "packages/devrt-cpu/tests/buffers/test_interop.py",
    "packages/devrt-core/tests/test_layout.py",
    "packages/devrt-core/tests/xla_client/test_gpu_options.py",
    "packages/devrt-core/tests/compiling/test_device_assignment.py",
    "packages/devrt-tpu/tests/buffers/test_like_jax.py",
    "packages/devrt-core/tests/arrays/test_like_jax.py",
    "packages/devrt-core/tests/sharding/test_like_jax.py",
    "packages/devrt-cpu/tests/programs/test_jax_objects.py",
    "packages/devrt-cpu/tests/programs/test_torch_objects.py",
)
OF_MUTANTS = ("tests/conformance", "packages/devrt-tpu/tests/conformance")
OF_WHEELS = (
    *(
        f"tests/integration/test_{name}.py"
        for name in "wheels matrix new_backend vendor_wheel real_plugins".split()
    ),
    "--confcutdir=tests/integration",  # what all tests share needs devrt beside them
)
ASAN = (
    *(
        f"packages/devrt-cpu/tests/buffers/test_{name}.py"
        for name in "views robust_inputs dlpack batched assemble limits semantics".split()
    ),
    *("tests/integration/test_buffers.py", "-k", "not loader"),
)
FAULTS = ("packages/devrt-core/tests/distributed",)
ASAN_CUDA = tuple(
    f"packages/devrt-cuda/tests/test_cuda_{name}.py" for name in "exchange launches engine".split()
)
PYTHONS = ["3.11", "3.12", "3.13"]

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True  # else nox skips, and reports success
nox.options.sessions = ["tests", "mutants", "stubs", "integration", "native"]


def _works(command: str) -> bool:
    found = shutil.which(command)
    if found is None:
        return False
    # A version manager may leave a stub on the path that only says that nothing is selected.
    return subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0


def _add_managed_interpreters() -> None:
    """Put pyenv's interpreters on the path, for the versions that are not found without it."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for python in PYTHONS:
        if not _works(f"python{python}"):
            folders = sorted(versions.glob(f"{python}.*/bin"), key=_patch_release)
            if folders:
                os.environ["PATH"] = f"{folders[-1]}{os.pathsep}{os.environ['PATH']}"


def _patch_release(folder: Path) -> int:
    patch = folder.parent.name.rpartition(".")[2]
    return int(patch) if patch.isdigit() else -1


_add_managed_interpreters()


def _install(session: nox.Session) -> None:
    session.install("-r", "requirements-dev.txt")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the test-suite on one Python."""
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=PYTHONS[0])
def mutants(session: nox.Session) -> None:
    """Plant each fault that the conformance kit has to find; the test-suite plants a few of them.

    ``nox -s mutants -- -k donation`` takes a part.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    run = "python -m pytest -m mutants -n auto".split()
    session.run(*run, *OF_MUTANTS, *session.posargs)


@nox.session(python=PYTHONS[0])
def fuzz(session: nox.Session) -> None:
    """Run the property tests on ten times as many examples, drawn anew."""
    _install(session)
    session.run("python", "-m", "pytest", "--hypothesis-profile=fuzz", *session.posargs)


@nox.session(python=PYTHONS[0])
def stress(session: nox.Session) -> None:
    """Count what is left over after a million puts, run every training loop for 20,000 steps.

    ``nox -s stress -- tests/integration/test_training_loops.py -k loader`` runs a part.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.run("python", "-m", "pytest", "-m", "stress", *session.posargs)


@nox.session(python=PYTHONS[0])
def faults(session: nox.Session) -> None:
    """End and stop processes of jobs and their servers: 50 random sequences, and each by itself.

    ``nox -s faults -- -k "sequence and etcd-17"`` takes the sequence of one seed.
    """
    _install(session)
    session.run("python", "-m", "pytest", "-m", "faults or not faults", *FAULTS, *session.posargs)


@nox.session(python=PYTHONS[0])
def interop(session: nox.Session) -> None:
    """Run the tests that share memory with other libraries, and those that compare with jaxlib.

    ``torch`` is what pip finds: on PyPI, Linux gets the build with the libraries of a GPU vendor
    (gigabytes). Point pip at PyTorch's own index for the CPU build to save them.
    """
    _install(session)
    session.install("torch==2.13.0", "jax>=0.7")
    session.run("python", "-m", "pytest", *(session.posargs or INTEROP))


@nox.session(name="fuzz-programs", python=PYTHONS[0])
def fuzz_programs(session: nox.Session) -> None:
    """Run random programs under jax and under devrt on one compiler, and compare the results.

    ``nox -s fuzz-programs -- --seeds 0:5000`` says which; see the script for more.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.install("jax==0.10.2")
    given = session.posargs or ["--seeds", "0:1000"]
    session.run("python", FUZZ, *given)


@nox.session(name="array-api", python=PYTHONS[0])
def array_api(session: nox.Session) -> None:
    """Run data-apis/array-api-tests on `devrt.numpy`, from an empty disk cache and a filled one.

    ``nox -s array-api -- PATH`` names its checkout; so does the variable ARRAY_API_TESTS.
    """
    given = session.posargs or os.environ.get("ARRAY_API_TESTS", "").split()
    if not given:
        session.error("name a checkout of data-apis/array-api-tests: nox -s array-api -- PATH")
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.install("pytest-json-report", "ndindex>=1.8")
    session.run("python", "tests/array_api/conformance.py", *given)


@nox.session(name="fuzz-jit", python=PYTHONS[0])
def fuzz_jit(session: nox.Session) -> None:
    """Trace random programs with jax and with devrt, and compare what they compute.

    ``nox -s fuzz-jit -- --seeds 0:1000`` says which; ``--jax PYTHON`` names one that has jax.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.install("jax==0.10.2")
    given = session.posargs or ["--seeds", "0:1000"]
    session.run("python", FUZZ_JIT, *given)


@nox.session(python=PYTHONS[0])
@nox.parametrize("engine", ENGINES)
def engines(session: nox.Session, engine: str) -> None:
    """Run every test of programs on one compiler for the CPU: cases, refusals, random programs.

    ``nox -s "engines(engine='xla-cpu-pjrt')"`` does one. ``STABLEHLO_CASES`` names the folder of
    StableHLO's own cases, ``-- --seeds 0:5000`` the random programs.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.install("jax==0.10.2")
    of_tests = {"TEST_CPU_ENGINE": engine}
    session.run("python", "-m", "pytest", *OF_ENGINES, env=of_tests)
    session.run("python", "-m", "pytest", "-m", "stress", *OF_STABLEHLO, env=of_tests)
    given = session.posargs or ["--seeds", "0:300"]
    session.run("python", FUZZ, *given, env={"DEVRT_CPU_ENGINE": engine})


@nox.session(python=PYTHONS[0])
@nox.parametrize("jax", JAX_VERSIONS)
def exports(session: nox.Session, jax: str) -> None:
    """Run what a version of jax exports, as text and as bytecode, and compare with its results.

    ``nox -s "exports(jax='0.4.30')"`` does one version.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.install(f"jax[cpu]=={jax}", "absl-py")  # which old versions import and do not name
    session.run("python", "-W", "ignore", EXPORTS, *session.posargs)


@nox.session(python=PYTHONS[0])
def quirks(session: nox.Session) -> None:
    """Run the case of every quirk against plugins, and say which are there and which are gone.

    ``nox -s quirks -- /path/to/plugin.so`` takes another one than the compilers for the CPU.
    """
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.run("python", "tests/quirks/report.py", *session.posargs)


@nox.session(python=PYTHONS[0])
def emitted(session: nox.Session) -> None:
    """Compile every operation that traced functions are printed with, for CPUs, TPUs and GPUs."""
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    session.run("python", "tests/emitted/report.py", *session.posargs)


@nox.session(python=PYTHONS[0])
def pages(session: nox.Session) -> None:
    """Run the pages of the documentation with the libraries that their blocks import."""
    _install(session)
    session.install("torch==2.12.1", "torchax==0.0.13", "jax==0.10.2", "flatbuffers")
    session.run("python", "-m", "pytest", "tests/documents/test_pages.py", *session.posargs)


@nox.session(python=PYTHONS[0])
def parity(session: nox.Session) -> None:
    """Write the page that compares devrt with JAX, name by name, where each of its rows is true."""
    _install(session)
    session.run("python", "tools/parity.py", *session.posargs)


@nox.session(python=PYTHONS[0])
def notebook(session: nox.Session) -> None:
    """Run what notebooks show in a kernel of IPython's."""
    _install(session)
    session.install("nbclient", "ipykernel")
    session.run("python", "-m", "pytest", "tests/integration/test_notebook.py", *session.posargs)


@nox.session(python=PYTHONS[0])
def integration(session: nox.Session) -> None:
    """Build every wheel once, install them as tests/integration/matrix.toml says, use them there.

    ``nox -s integration -- -k skew`` runs a part. ``TEST_WHEELHOUSE`` names a folder of wheels that
    are built already; those that are not there are built into it.
    """
    lacking = [python for python in PYTHONS if not _works(f"python{python}")]
    if lacking:
        session.error(f"these Pythons of the matrix are not installed: {', '.join(lacking)}")
    session.install("build>=1.2", "packaging>=24", "pytest>=8.3")
    session.run(*"python -m pytest -m wheels".split(), *OF_WHEELS, *session.posargs)


@nox.session(python=PYTHONS[0])
def stubs(session: nox.Session) -> None:
    """Make the native modules' stubs again and compare them with those that are committed."""
    _install(session)
    session.run("python", "-m", "pytest", STUB_TEST, *session.posargs)


@nox.session(python=PYTHONS[0])
def native(session: nox.Session) -> None:
    """Run the native tests, plain and under each sanitizer."""
    session.install("nanobind>=3.1,<4", "cmake>=3.24", "ninja")
    kinds = session.posargs or ["plain", "asan", "tsan"]
    session.run("tools/native_tests.sh", *kinds, external=True)


@nox.session(python=PYTHONS[0])
def simulator(session: nox.Session) -> None:
    """Run what the GPU simulator reports, and what it must not, over 1,000 seeds.

    Bugs planted in programs and in the client of GPUs are found under each; the same without them,
    and the client's copies, launches, exchange, programs and collectives, under none. Then every
    level of the conformance kit, on the simulated devices of both vendors.
    """
    session.install("cmake>=3.24", "ninja")
    env = {
        "DEVRT_SIMULATOR_SEEDS": "1000",
        "DEVRT_NATIVE_PACKAGES": "cuda",
        "DEVRT_NATIVE_TIMEOUT": "7200",
    }
    session.run("tools/native_tests.sh", *(session.posargs or ["plain"]), env=env, external=True)
    _install(session)
    session.install("--no-deps", "-r", "requirements-plugins.txt")
    # Between processes only where the simulated devices are of one.
    for platform, devices, *level in (
        ("cuda", "2x2"),
        ("cuda", "2", "--level", "distributed"),
        ("rocm", "2"),
    ):
        of_mock = {f"DEVRT_{platform.upper()}_MOCK": devices}
        session.run("devrt", "conform", f"{platform}@devrt-{platform}", *level, env=of_mock)


@nox.session(name="asan-python", python=PYTHONS[0])
def asan_python(session: nox.Session) -> None:
    """Run tests of the CPU's and CUDA's backends with their modules under AddressSanitizer.

    Those of CUDA's are of exchange, kernels and programs, on simulated devices. The interpreter's
    own leaks are not looked for, and what starts XLA for the CPU is left out.
    """
    _install(session)
    env = {"CMAKE_ARGS": "-DDEVRT_SANITIZE=address"}
    backends = ("packages/devrt-cpu", "packages/devrt-cuda")
    session.install("--no-deps", "--force-reinstall", *backends, env=env)
    libraries = [
        session.run("gcc", f"-print-file-name={name}", silent=True, external=True).strip()
        for name in ("libasan.so", "libstdc++.so")  # the second, or exceptions are not seen
    ]
    env = {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
    }
    for given in [session.posargs] if session.posargs else (ASAN, ASAN_CUDA):
        session.run("python", "-m", "pytest", "-n0", *given, env=env)


@nox.session(python=PYTHONS[0])
def bench(session: nox.Session) -> None:
    """Measure devrt beside its peers and write the table."""
    _install(session)
    session.run("python", "-m", "bench", *session.posargs)


@nox.session(python=False)
def fresh(session: nox.Session) -> None:
    """Run the demo, the tests and the documentation in a fresh clone with an empty home."""
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder, "clone"), Path(folder, "home")
        home.mkdir()
        session.run("git", "clone", "--quiet", str(ROOT), str(clone), external=True)
        env = {"HOME": str(home), "PYTHON": sys.executable, "VIRTUAL_ENV": None}
        with session.chdir(clone):
            session.run("make", "demo", env=env, external=True)
            session.run("make", "test", env=env, external=True)
            session.run("make", "docs", env=env, external=True)
