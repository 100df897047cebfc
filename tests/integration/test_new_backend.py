"""The projects that `devrt new-backend` writes do what their own CI asks of them."""

import json
import re

import pytest

from wheelhouse import CHECKOUT, run

pytestmark = pytest.mark.wheels

NAME = "zeta_x1"
TEMPLATES = {
    "python": ("devrt-core",),
    "native": ("devrt-core",),
    "pjrt": ("devrt-core[pjrt]",),
}
"""The option of the command, and what the environment has beforehand."""


def steps(workflow):
    """Yield the commands of a workflow, as its shell gets them."""
    for line in workflow.read_text().splitlines():
        _, is_step, command = line.partition("- run: ")
        if is_step:
            yield command


def prepared(environments, template):
    """Return the environment in which a project of a template is made."""
    return environments({"name": f"new-{template}", "install": [*TEMPLATES[template], "pip"]})


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_steps_of_its_ci_pass(environments, wheelhouse, template):
    environment = prepared(environments, template)
    option = () if template == "python" else (f"--{template}",)
    environment.run(["devrt", "new-backend", NAME, *option])
    project = environment.folder / "devrt-zeta-x1"
    commands = list(steps(project / ".github/workflows/ci.yml"))
    assert [command.split()[2:4] for command in commands[:3]] == [
        ["pip", "install"],
        ["build"],
        ["pip", "install"],
    ]
    words = environment.environ(PIP_FIND_LINKS=wheelhouse.find_links())
    for command in commands:
        run(["sh", "-ec", command], project, **words)
    report = json.loads((project / "report.json").read_text())
    assert report["ok"]
    assert report["subject"]["distribution"] == "devrt-zeta-x1"
    assert (project / "report.html").read_text().startswith("<!doctype html>")


def test_the_page_for_authors_leads_to_a_published_wheel(environments, wheelhouse):
    page = (CHECKOUT / "docs/backend-authors/first-backend.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.M | re.S)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]
    environment = prepared(environments, "python")
    words = environment.environ(PIP_FIND_LINKS=wheelhouse.find_links())
    printed = run(["sh", "-ec", "\n".join(commands)], environment.folder, **words)
    (written,) = re.findall(r"^\$ devrt new-backend zeta\n(.*?)^```", page, re.M | re.S)
    assert printed.startswith(written)
    assert "devrt-zeta 0.1.0: " in printed
    assert "every case ended as before" in printed
    assert (environment.folder / "devrt-zeta/report.html").is_file()
