"""What ``tools/on_gpu.sh`` runs, and in which order: no machine of the suite has a GPU for it."""

import os
import shutil
import subprocess

import pytest

TOOLS = ("dirname", "mkdir", "tail")


def steps(checkout, folder, platform, *others):
    """Run it with an echo for each program; return what it prints, and the commands by step."""
    programs = folder / "programs"
    programs.mkdir()
    for name in TOOLS:
        (programs / name).symlink_to(shutil.which(name))
    for name in others:
        (programs / name).symlink_to(shutil.which("echo"))
    ran = subprocess.run(
        [shutil.which("bash"), "tools/on_gpu.sh", platform, folder / "logs"],
        cwd=checkout.root,
        env=os.environ | {"PATH": str(programs), "PYTHON": shutil.which("echo")},
        capture_output=True,
        text=True,
        check=True,
    )
    logs = {path.stem: path.read_text() for path in (folder / "logs").iterdir()}
    return [line.partition(":") for line in ran.stdout.splitlines()], logs


def test_what_was_read_from_source_is_looked_at_first(checkout, tmp_path):
    lines, logs = steps(checkout, tmp_path, "cuda")
    assert [step for step, _, _ in lines] == [
        *("as-read", "tests", "kit", "kit-of-xla", "bench", "sanitizer")
    ]
    assert "tests/gpu/test_engine.py" in logs["as-read"]
    assert (checkout.root / "tests/gpu/test_engine.py").is_file()
    assert all("--require-device=cuda" in logs[step] for step in ("as-read", "tests"))


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_a_sanitizer_that_is_not_there_is_named(checkout, tmp_path, platform):
    lines, logs = steps(checkout, tmp_path, platform)
    step, _, text = lines[-1]
    assert step == "sanitizer"
    assert "not run" in text.lower()
    assert "sanitizer" not in logs


def test_the_sanitizer_covers_all_tests_and_passes_over_calls_that_fail(checkout, tmp_path):
    _, logs = steps(checkout, tmp_path, "cuda", "compute-sanitizer")
    assert "--report-api-errors no" in logs["sanitizer"]
    assert " tests/gpu " in logs["sanitizer"]
