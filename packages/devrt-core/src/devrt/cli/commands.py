"""The commands: what they are called and their options."""

from __future__ import annotations

from typing import Any

import click

from devrt.cli.group import Commands, errors_as_json, json_option, print_json
from devrt.cli.job_commands import JOB_COMMANDS
from devrt.cli.machine_commands import MACHINE_COMMANDS

__all__ = ["main"]


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"devrt {version('devrt-core')}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Print the version of devrt-core and exit.",
)
def main() -> None:
    """Find the accelerators of this machine, and run programs on them."""


for _command in (*MACHINE_COMMANDS, *JOB_COMMANDS):
    main.add_command(_command)


@main.command(name="list", short_help="Show the installed backends, which is chosen, and why.")
@json_option
def list_backends(as_json: bool) -> None:
    """Show the installed backends: which is chosen, which are not, and why.

    The exit status is 0 if one is chosen, else 1.
    """
    from devrt.cli import report as _report
    from devrt.cli import tables

    with errors_as_json(as_json):
        report = _report.backends()
    if as_json:
        print_json(report)
    else:
        tables.show_backends(report)
    if report["chosen"] is None:
        click.get_current_context().exit(1)


@main.command()
@json_option
def config(as_json: bool) -> None:
    """Show every option, its value, and where that comes from."""
    from devrt.cli import settings

    with errors_as_json(as_json):
        report = settings.settings()
    if as_json:
        print_json(report)
    else:
        settings.show(report)
    if report["problems"]:
        click.get_current_context().exit(1)


@main.command()
@json_option
@click.option("--clear", is_flag=True, help="Remove all of them.")
def cache(as_json: bool, clear: bool) -> None:
    """Show the compiled programs in the disk cache, or remove them."""
    from devrt.cli import cache as _cache

    with errors_as_json(as_json):
        report = _cache.clear() if clear else _cache.contents()
    if as_json:
        print_json(report)
    else:
        _cache.show(report)
    if report["problems"]:
        click.get_current_context().exit(1)


@main.command(short_help="Shard real data over a mesh, and check it bit for bit.")
@click.option(
    "--input",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="An image, a .npy or a .npz file, in place of scikit-learn's digits.",
)
@click.option(
    "--devices",
    "count",
    default=8,
    show_default=True,
    type=click.IntRange(min=1, max=1024),
    help="Virtual devices of the host to shard over.",
)
@click.option(
    "--mock",
    metavar="PLATFORM:DEVICES",
    help="Simulated devices in their place: PLATFORM:4, or PLATFORM:2x4 for two nodes of four.",
)
def demo(path: str | None, count: int, mock: str | None) -> None:
    """Shard real data over a mesh of devices, move it about, and check it bit for bit.

    On simulated devices an array is moved about that is made up, and one program runs.
    """
    if mock is not None:
        from devrt.cli import demo as _demo

        if not _demo.run_simulated(mock):
            click.get_current_context().exit(1)
        return
    from devrt.examples import digits

    if not digits.run(path, count):
        click.get_current_context().exit(1)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@json_option
@click.option(
    "--top",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many call sites to show in the table.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True),
    help="Also write the profile there, compressed, for pprof.",
)
def heap(file: str, as_json: bool, top: int, output: str | None) -> None:
    """Show the call sites that hold the most memory.

    FILE is a profile that the program saved with devrt.heap_profile("FILE").
    """
    from devrt.cli import heap as _heap

    report = _heap.call_sites(file)
    if output:
        _heap.save(file, output)
    if as_json:
        print_json(report)
    else:
        _heap.show(report, top)


@main.command(name="compile", short_help="Compile a program for devices here or elsewhere.")
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--topology",
    help="The devices' topology, as its platform names it: v5e:4x4, h100:8; else the devices that "
    "are here.",
)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False), help="The executable."
)
@click.option(
    "--platform", help="Who describes the topology, else the first that knows it; or whose devices."
)
@click.option(
    "--topology-option",
    "topology_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the topology; @FILE as the value is what a file holds.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A compile option, such as num_partitions=4.",
)
@json_option
def compile_program(
    program: str,
    topology: str | None,
    output: str,
    platform: str | None,
    topology_options: tuple[str, ...],
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compile a StableHLO program for devices that are here, or need not be.

    Prints what the executable takes of a device's memory, and what running it costs. What is
    written is run by `devrt run` where the devices are.
    """
    from devrt.cli import compile

    report = compile.compile_file(
        program,
        topology,
        output,
        platform,
        compile.parse_options(topology_options),
        compile.parse_options(options),
    )
    if as_json:
        print_json(report)
    else:
        compile.show(report)


@main.command()
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--inputs",
    type=click.Path(exists=True, dir_okay=False),
    help="An .npz of arguments in0, in1, ..., or else of all in its order; of trees, the leaves.",
)
@click.option("--random", is_flag=True, help="Run it on made-up arguments.")
@click.option("--seed", type=int, default=0, show_default=True, help="Where those begin.")
@click.option(
    "--outputs",
    type=click.Path(dir_okay=False),
    help="The .npz to write out0, out1, ... to; bfloat16 and its like as raw bits.",
)
@click.option("--platform", help="Where to run it; else on the default platform.")
@click.option(
    "--devices",
    type=click.IntRange(min=1, max=1024),
    help="Devices to run it on, where the program does not say.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often to run it, for its times.",
)
@click.option(
    "--explain", is_flag=True, help="Draw where each shard of what it takes and gives lies."
)
def run(
    program: str,
    inputs: str | None,
    random: bool,
    seed: int,
    outputs: str | None,
    platform: str | None,
    devices: int | None,
    repeat: int,
    explain: bool,
) -> None:
    """Run an exported program, or what `devrt compile` wrote.

    PROGRAM is StableHLO, text or bytecode, or what jax.export serialised. Prints the results and
    how long it took; with --outputs they go to the file instead. A program that holds shardings
    runs on as many devices as it says.
    """
    from devrt.cli import run as _run

    if random and inputs is not None:
        raise click.UsageError("give either --inputs or --random.")
    options: dict[str, Any] = {"platform": platform, "devices": devices, "repeat": repeat}
    report = _run.run(program, inputs, outputs, seed=seed if random else None, **options)
    shown = {"values": outputs is None, "times": outputs is None or repeat > 1}
    _run.show(report, **shown, shards=explain)


@main.command(short_help="Show what a program takes and gives, and who takes it.")
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--devices",
    type=click.IntRange(min=1, max=1024),
    help="Devices to compile it for, where the program does not say.",
)
@click.option("--platform", help="Only this platform's backends.")
@json_option
def inspect(program: str, devices: int | None, platform: str | None, as_json: bool) -> None:
    """Show what a program takes and gives, and which installed backends take it.

    The exit status is 0 if one does, else 1.
    """
    from devrt.cli import inspection

    with errors_as_json(as_json):
        report = inspection.inspect(program, devices, platform)
    if as_json:
        print_json(report)
    else:
        inspection.show(program, report)
    if not any(backend["takes"] for backend in report["backends"]):
        click.get_current_context().exit(1)


@main.command(short_help="Hold a backend, or a PJRT library, to the contract.")
@click.argument("subject", required=False)
@click.option("--level", help="Only the cases of this level: load, memory, transfer ...")
@click.option("--case", "cases", multiple=True, help="Only this case; may be given again.")
@click.option("--list", "is_list", is_flag=True, help="Show the cases, and run none.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write the report there, as JSON.")
@click.option("--page", type=click.Path(dir_okay=False), help="Write it there, as HTML.")
@click.option(
    "--diff",
    nargs=2,
    type=click.Path(exists=True, dir_okay=False),
    help="Compare two reports, and run nothing.",
)
@json_option
def conform(subject: str | None, as_json: bool, **options: Any) -> None:
    """Hold a backend to the contract: run each case of the kit in a child process.

    SUBJECT is a platform, platform@distribution, or the path of a PJRT library or of its
    configuration file. The exit status is 0 if something passed and nothing failed, else 1; of
    --diff, 0 if nothing fails that did not, and what passed was run, applies and passes.
    """
    from devrt.cli import conform as _conform

    if subject is None and not options["is_list"] and not options["diff"]:
        raise click.UsageError("name a backend or give the path of a PJRT library.")
    if subject is not None and options["diff"]:
        raise click.UsageError(
            f"--diff compares two reports and runs nothing: leave out {subject}."
        )
    with errors_as_json(as_json):
        found, show, status = _conform.run(subject or "", **options)
    if as_json:
        print_json(found.to_dict())
    else:
        show()
    click.get_current_context().exit(status)


@main.command(name="new-backend", short_help="Write the project of a new backend, to begin with.")
@click.argument("name")
@click.option("--native", is_flag=True, help="A driver in C++.")
@click.option("--pjrt", is_flag=True, help="Around a PJRT library.")
@click.option("--output", type=click.Path(), help="The folder to write; else devrt-NAME.")
def new_backend(name: str, native: bool, pjrt: bool, output: str | None) -> None:
    """Write a project that builds, serves the platform NAME and passes `devrt conform NAME`.

    It is a simulated device, in Python unless an option says otherwise; replace it part by part.
    """
    from devrt.cli import new_backend as _new_backend

    if native and pjrt:
        raise click.UsageError("give either --native or --pjrt.")
    template = "native" if native else "pjrt" if pjrt else "python"
    for path in _new_backend.write_project(name, template, output):
        click.echo(path)
