"""The group of the commands: how they fail, what they print where, and how they end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from devrt.errors import DevrtError, DevrtWarning

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "Commands",
    "errors_as_json",
    "interval_option",
    "json_option",
    "platform_option",
    "print_json",
]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
platform_option = click.option("--platform", help="Only this platform's devices.")


_LONGEST = 1e6  # seconds; what a sleep takes is not much more


def _checked_interval(context: click.Context, option: click.Parameter, value: float) -> float:
    if not value <= _LONGEST:  # nor NaN, of which no comparison with a bound is true
        msg = f"{value} is not in the range x<={_LONGEST:.0f}."
        raise click.BadParameter(msg, context, option)
    return value


def interval_option(what: str) -> Callable[[F], F]:
    """Return the option for the seconds that lie between two of what a command shows."""
    return click.option(
        "--interval",
        default=2.0,
        show_default=True,
        type=click.FloatRange(min=0.1),
        callback=_checked_interval,
        help=f"Seconds from one {what} to the next.",
    )


class Commands(click.Group):
    """A group whose commands print warnings and a devrt error as one message each.

    An error ends them with status 1; so does an output that nobody takes.
    """

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Return the command that was named; where Python has it instead, say so."""
        if args and args[0] == "explain":
            context.fail("No such command 'explain'. Type devrt list or devrt doctor.")
        return super().resolve_command(context, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command, and write its output to the end."""
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # what fails here would fail unseen at the interpreter's end
        except OSError as error:
            _abandon_output()
            if error.errno != errno.EPIPE:  # who closed the pipe knows
                why = error.strerror or error
                click.echo(f"devrt: the output could not be written: {why}.", err=True)
            sys.exit(1)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; print its error as one message."""
        try:
            with _shown_warnings():
                return super().invoke(context)
        except (
            DevrtError,
            DevrtWarning,
        ) as error:  # warnings may be errors
            click.echo(f"devrt: {type(error).__name__}: {error}", err=True)
            context.exit(1)


def _abandon_output() -> None:
    """Let what is still to be written go nowhere, so that the interpreter's end is quiet."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_json(report: dict[str, Any]) -> None:
    """Print a report as JSON."""
    click.echo(json.dumps(report, indent=2))


@contextlib.contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Print a devrt error as JSON too, for who reads nothing else."""
    try:
        yield
    except DevrtError as error:
        if wanted:
            about = {"type": type(error).__name__, "code": error.code.name, "message": str(error)}
            print_json({"error": about})
        raise


@contextlib.contextmanager
def _shown_warnings() -> Iterator[None]:
    """Show warnings as messages meanwhile, and put back what was there."""
    former = warnings.showwarning
    warnings.showwarning = _show_warning
    try:
        yield
    finally:
        warnings.showwarning = former


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    click.echo(f"devrt: {category.__name__}: {message}", err=True)
