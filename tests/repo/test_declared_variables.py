"""What variables a backend reads is in its manifest: else devrt warns that none does."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted(ROOT.glob("packages/*/src/*/devrt.toml"))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.parent.name)
def test_a_manifest_names_the_variables_that_its_package_reads(manifest):
    platforms = tomllib.loads(manifest.read_text())["backend"]
    declared = {row["name"] for each in platforms for row in each.get("environment", ())}
    own = re.compile(rf'"(DEVRT_{manifest.parent.name.removeprefix("devrt_").upper()}_\w+)"')
    read = {name for path in manifest.parent.glob("*.py") for name in own.findall(path.read_text())}
    options = {
        f"DEVRT_{name.upper()}"
        for path in manifest.parent.glob("*.py")
        for name in re.findall(r'OptionSpec\(\s*(?:name=)?"(\w+)"', path.read_text())
    }
    assert read - declared - options == set()
