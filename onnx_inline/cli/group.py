"""The root command and the table of its subcommands, each imported when it is asked for."""

from __future__ import annotations

import difflib
import importlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from onnx_inline.cli.config import configured
from onnx_inline.cli.log import as_verbose_as
from onnx_inline.cli.settings import Settings, common_options

#: command -> the module of onnx_inline.cli that has it, in the order of the help page
COMMANDS = {
    "inline": "transforming",
    "check": "preparing",
    "prepare": "preparing",
    "decompose": "preparing",
    "run": "chaining",
    "bisect": "chaining",
    "verify": "comparing",
    "diff": "comparing",
    "bind": "binding",
    "inspect": "looking",
    "passes": "chaining",
    "targets": "looking",
    "doctor": "looking",
}


class Command(click.Command):
    """A command with the common options, and an example at the end of its help page."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += common_options()
        if example:
            self.epilog = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Take values that the command line does not give from the configuration file."""
        if not {"-h", "--help"} & set(args):
            extra.setdefault("default_map", configured(self, Path.cwd(), _all_commands))
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or print where each value comes from."""
        chosen = ctx.ensure_object(Settings)
        if not chosen.show_config:
            with as_verbose_as(chosen.verbose):
                return super().invoke(ctx)
        for name, value in ctx.params.items():
            source = ctx.get_parameter_source(name)
            origin = "unknown" if source is None else source.name.lower().replace("_", " ")
            click.echo(f"{name.replace('_', '-')} = {value!r}  ({origin.replace('default map', 'file')})")
        return 0

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept ``--json=PATH``; a value after a blank would swallow the model's path."""
        return super().parse_args(ctx, [re.sub("^--json=", "--report=", argument) for argument in args])


class Group(click.Group):
    """Finds commands in :data:`COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"onnx_inline.cli.{COMMANDS[cmd_name]}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` begin with; name similar ones if there is none."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = difflib.get_close_matches(name, COMMANDS, cutoff=0.7)
            meant = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(COMMANDS)}"
            if Path(name).exists():
                meant = f"did you mean onnx-inline inline {shlex.join(args)}?"
            raise click.UsageError(f"no command {name!r}; {meant}", ctx)
        return super().resolve_command(ctx, args)


def _all_commands() -> list[click.Command]:
    found = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
    return [command for command in found if command is not None]


def _print_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(version_line())
        context.exit()


def version_line() -> str:
    """Return this package's version and those of what its results depend on."""
    import platform

    from onnx_inline._version import __version__
    from onnx_inline.reports.installation import installed_version

    others = [f"{name} {installed_version(name) or 'not installed'}" for name in VERSIONED]
    return f"onnx-inline {__version__} ({', '.join(others)}, Python {platform.python_version()})"


#: Distributions named on the version line.
VERSIONED = ("onnx", "onnx-ir", "onnxscript", "onnxruntime")


def _print_completion(context: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    if shell is None:
        return
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "onnx-inline", "_ONNX_INLINE_COMPLETE").source())
    context.exit()


_SHELLS: Sequence[str] = ("bash", "zsh", "fish")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print versions.",
)
@click.option(
    "--show-completion",
    type=click.Choice(_SHELLS),
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print a script that makes the shell complete commands and options.",
)
def cli() -> None:
    """Inline the functions of ONNX models, and make models fit for what reads them next."""
