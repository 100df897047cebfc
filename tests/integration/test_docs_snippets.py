"""The plugin on the page for backend authors is built as written, and devrt finds it."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from support import run_python

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/backend-authors/hooks.md").read_text(encoding="utf-8")

BLOCK = r"^<!-- {}: (?P<name>[^\n]+) -->\n```\w+\n(?P<text>.*?)^```$"
FILES = {m["name"]: m["text"] for m in re.finditer(BLOCK.format("file"), PAGE, re.M | re.S)}
OUTPUTS = {m["name"]: m["text"] for m in re.finditer(BLOCK.format("output"), PAGE, re.M | re.S)}


@pytest.fixture
def site(tmp_path):
    """A folder as an installer leaves it: the page's modules and the distribution's metadata."""
    for name, text in FILES.items():
        if name.endswith(".py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    fields = {"Metadata-Version": "2.4", "Name": project["name"], "Version": project["version"]}
    (info / "METADATA").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))
    points = project["entry-points"]["devrt_plugins"]
    lines = ["[devrt_plugins]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return tmp_path


def run(site, *arguments):
    return run_python(*arguments, PYTHONPATH=site).stdout


def test_the_page_has_its_files():
    assert set(FILES) == {"pyproject.toml", "acme_backend/plugin.py", "acme_backend/client.py"}
    assert set(OUTPUTS) == {"devrt list --json"}


def test_devrt_lists_the_plugin_as_the_page_says(site):
    rows = json.loads(run(site, "-m", "devrt", "list", "--json"))["backends"]
    (row,) = (row for row in rows if row["distribution"] == "acme-backend")
    shown = json.loads(OUTPUTS["devrt list --json"])
    assert {key: row[key] for key in shown} == shown


def test_every_hook_returns_records_and_the_factory_makes_the_client(site):
    script = """
import sys
from acme_backend import plugin
from devrt import hookspecs
from devrt.records import ClientContext

own = {"devrt_pjrt_loader", "devrt_plugin_traits"}  # a page of its own tells of loaders
hooks = [name for name in vars(hookspecs) if name.startswith("devrt_") and name not in own]
assert all(hasattr(plugin, hook) for hook in hooks), hooks
(record,) = plugin.devrt_client_factories()
kinds = tuple(plugin.devrt_memory_kinds())
assert "acme_backend.client" not in sys.modules
client = record.factory(ClientContext(options={"acme_streams": 3}, memory_kinds=kinds))
print(client.streams, [kind.kind for kind in client.memory_kinds])
"""
    assert run(site, "-c", script) == "3 ['device']\n"


def test_the_probe_finds_the_device_where_it_is(site):
    (site / "acme0").touch()
    script = (
        "from acme_backend import plugin\n"
        f"plugin.DEVICE = {str(site / 'acme0')!r}\n"
        "print(type(plugin.probe()).__name__)\n"
    )
    assert run(site, "-c", script) == "Available\n"
