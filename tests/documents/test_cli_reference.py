"""The reference of the command line has the help text of every command, as it is printed."""

from pathlib import Path

from click.testing import CliRunner

from devrt.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def reference():
    """Return the page, made from the commands."""
    sections = ["# The command line\n\n[The CLI](../users/cli.md) shows each at work.\n"]
    for name in ["", *sorted(main.commands)]:
        arguments = [name, "--help"] if name else ["--help"]
        done = CliRunner().invoke(main, arguments, prog_name="devrt", terminal_width=80)
        assert done.exit_code == 0, done.output
        title = f"devrt {name}".strip()
        sections.append(f"## {title}\n\n```text\n{done.output.strip()}\n```\n")
    return "\n".join(sections)


def test_every_command_is_in_the_reference_as_it_prints_itself():
    assert PAGE.read_text(encoding="utf-8") == reference(), f"run python {Path(__file__).name}"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
