"""The pages for users run as they stand.

Pages that tell a story run from top to bottom in one folder, commands with their output; of the
others every Python block runs by itself, in silence.

Each Python block is a program of its own; what it writes is there for the blocks that follow. In a
console block a line ``$ command`` is run by the shell, and the lines below it are what it prints,
where ``...`` stands for anything. A block that needs a library that is not installed (jax, torch)
is replaced by the files that it wrote when it last ran, in ``recorded``. Where the library is
there, ``python tests/documents/test_pages.py`` writes those files again.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("devrt_cpu")

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "recorded"
STORIES = [
    "README.md",
    "docs/users/cli.md",
    "docs/users/export-jax.md",
    "docs/users/export-pytorch.md",
    "docs/users/run-and-serve.md",
]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOREIGN = ("jax", "torch", "torchax")


def foreign(code):
    """Return the libraries that a block imports and that devrt does not need."""
    return [n for n in FOREIGN if re.search(rf"^(?:import|from) {n}\b", code, re.MULTILINE)]


def missing(code):
    """Return those of them that are not installed."""
    return [name for name in foreign(code) if importlib.util.find_spec(name) is None]


def environment(folder):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("DEVRT_", "JAX_", "XLA_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    state = folder / "state"  # no cache and no configuration of the user
    return own | {"PATH": path, "XDG_CACHE_HOME": str(state), "XDG_CONFIG_HOME": str(state)}


def run(command, folder):
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert isinstance(command, str) or done.returncode == 0, done.stdout
    return done.stdout


def matches(shown, printed):
    """Return whether a page shows what was printed, white space at the ends of lines aside."""
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    pattern = ".*?".join(map(re.escape, shown.strip().split("...")))
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


def run_console(block, folder):
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        printed = run(command, folder)
        assert matches(shown, printed), f"$ {command}\n{printed}"


def run_python(code, folder, recorded):
    if missing(code):
        assert recorded.is_dir(), f"a block needs {missing(code)}, and nothing is recorded"
        shutil.copytree(recorded, folder, dirs_exist_ok=True)
        return
    strict = [] if foreign(code) else ["-W", "error"]  # other libraries warn as they like
    run([sys.executable, *strict, "-c", code], folder)


def blocks(story):
    return BLOCK.findall((ROOT / story).read_text(encoding="utf-8"))


OTHERS = sorted({*(ROOT / "docs" / "users").glob("*.md")} - {ROOT / story for story in STORIES})
SNIPPETS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in OTHERS
    for number, (kind, block) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if kind == "python"
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippet_runs(snippet, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("story", STORIES)
def test_the_page_runs_from_top_to_bottom(story, tmp_path):
    for kind, block in blocks(story):
        if kind == "console":
            run_console(block, tmp_path)
        else:
            run_python(block, tmp_path, RECORDED / Path(story).stem)


def test_output_is_compared():
    assert matches("a ... c\nd\n", "a b c  \nd\n")
    assert not matches("a ... c\n", "a b d\n")
    assert not matches("a\n", "a\nb\n")


def record(story):
    """Run the blocks of a page that need a foreign library, and keep what they write."""
    codes = [code for kind, code in blocks(story) if kind == "python" and foreign(code)]
    if not codes or any(map(missing, codes)):
        return
    with tempfile.TemporaryDirectory() as name:
        for code in codes:
            run([sys.executable, "-c", code], Path(name))
        shutil.rmtree(RECORDED / Path(story).stem, ignore_errors=True)
        shutil.copytree(name, RECORDED / Path(story).stem)


if __name__ == "__main__":
    for page in STORIES:
        record(page)
