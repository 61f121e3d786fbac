"""Commands whose options are the fields of dataclasses."""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import functools
import inspect
import os
import shlex
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin

import typer
from typer.core import TyperCommand

from gpusched_env.errors import GpuschedError
from gpusched_env.support.consoles import (
    Shown,
    collected,
    in_json,
    in_latex,
    in_markdown,
    output_checked,
    prepare_output,
    tell_interrupt,
)
from gpusched_env.support.provenance import remember_command
from gpusched_env.support.users_lines import WHOLE, users_frames

USAGE_ERROR: Final = 2  # exit status of invalid input, the same as Typer's for a wrong option
UsageError: Final[type[Any]] = typer.BadParameter.__mro__[1]  # of the copy of click that this Typer uses
# Option with which a command prints its tables as data -> their text
FORMATS: Final[dict[str, Callable[[list[Shown]], str]]] = {
    "json": in_json, "latex": in_latex, "markdown": in_markdown,
}  # fmt: skip
LIST: Final = "A,B,..."  # metavar of options that take a list
Function = Callable[..., Any]


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Report invalid input, lack of memory and Ctrl-C in one line; errors of a user's code by their lines there.

    Other errors show a traceback.
    """
    try:
        yield
    except GpuschedError as error:
        frames = users_frames(error)
        raise _exit(f"{frames[-1][0]}, line {frames[-1][1]}: {error}" if frames else str(error)) from error
    except MemoryError as error:
        raise _exit(f"not enough memory ({error}): choose fewer jobs, GPUs or workers") from error
    except KeyboardInterrupt as stop:  # the text of ``stop`` says which results were kept
        raise typer.Exit(tell_interrupt("gpusched", stop)) from stop
    except Exception as error:
        frames = users_frames(error)
        if not frames or os.environ.get(WHOLE):
            raise
        (file, line, _), texts = frames[-1], dict.fromkeys(text for _, _, text in frames)
        print(f"gpusched: {file}, line {line}: {type(error).__name__}: {error}", *texts, sep="\n", file=sys.stderr)
        print(f"{WHOLE}=1 shows the whole traceback", file=sys.stderr)
        raise typer.Exit(1) from error


def _exit(text: str) -> typer.Exit:
    """Print the reason of an exit in one line and return the exit."""
    print(f"gpusched: {' '.join(text.split())}", file=sys.stderr)
    return typer.Exit(USAGE_ERROR)


class Command(TyperCommand):
    """A command whose options are made when they are asked for, and that tells errors in one line."""

    function: ClassVar[Function]

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments."""
        path = f"{parent.command_path} {info_name}" if parent is not None else info_name
        remember_command(f"{path} {shlex.join(args)}")
        with _told():
            return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: Any) -> Any:
        """Return arguments and options."""
        if not self.params:
            self.take(type(self).function)
        return super().get_params(ctx)

    def take(self, function: Function) -> None:
        """Make the options of a function, and call it."""
        made = typer.Typer(add_completion=False)
        made.command()(flattened(function))
        command = typer.main.get_command(made)
        self.params, self.callback = command.params, command.callback

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        names = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.message = error.message.replace("Value error, ", "")  # of Typer's own library
            if "extra argument" in str(error) and "--output" in names:
                error.message += "; --output names the file of the results"
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _told():
            return super().invoke(ctx)


class Commands(typer.Typer):
    """A group of commands whose options are flattened dataclasses.

    Parameters
    ----------
    help : what the group is for
    """

    def __init__(self, help: str) -> None:
        super().__init__(
            help=help,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def add(self, name: str, tables: bool = False, cls: type[Command] = Command) -> Callable[[Function], Function]:
        """Add a function as a command; ``tables`` = it prints tables, so that it has the options of FORMATS."""

        def added(function: Function) -> Function:
            self.command(name, cls=_of(printed_as_data(function) if tables else function, cls))(_described(function))
            return function

        return added


def _of(function: Function, cls: type[Command] = Command) -> type[Command]:
    """Return the class of the command that calls a function."""
    return type(function.__name__, (cls,), {"function": staticmethod(function)})


def _described(function: Function, text: str | None = None) -> Callable[[], None]:
    """Return a function without parameters, whose docstring Typer shows: a text, or else that of ``function``."""

    def described() -> None: ...

    described.__doc__ = text or function.__doc__
    return described


def run_script(function: Function) -> None:
    """Run the function of a script with the settings that its command line gives."""
    prepare_output()
    script = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    script.command(cls=_of(function))(_described(function, sys.modules[function.__module__].__doc__))
    with output_checked():
        script()


def printed_as_data(command: Function) -> Function:
    """Give a command the options ``--json``, ``--latex`` and ``--markdown``."""

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        chosen = [name for name in FORMATS if given.pop(name)]
        if len(chosen) > 1:
            raise GpuschedError(f"{' and '.join(f'--{name}' for name in chosen)}: give one of them")
        if not chosen:
            return command(**given)
        with collected() as tables:
            command(**given)
        return print(FORMATS[chosen[0]](tables), end="")

    def option(name: str) -> inspect.Parameter:
        words = f"Print the tables as {name if name != 'json' else 'JSON'}; all else goes to standard error."
        hint = Annotated[bool, typer.Option(f"--{name}", help=words.replace("latex", "LaTeX (booktabs)"))]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=hint)

    added = [option(name) for name in FORMATS]
    signature = inspect.signature(command)
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    call.__annotations__ = command.__annotations__ | {one.name: one.annotation for one in added}
    return call


def flattened(function: Function) -> Function:
    """Replace each parameter that is a dataclass by its fields, also those of dataclasses within.

    The docstring below a field is its help; ``Annotated[type, typer.Option(...)]`` tells more. Sequences are lists with
    commas. A default of the parameter gives the defaults of the fields. ``PANEL`` of a class is a heading in the help.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    options: list[inspect.Parameter] = []
    classes: dict[str, type] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if dataclasses.is_dataclass(hint):
            assert isinstance(hint, type)
            classes[parameter.name] = hint
            options += _options(hint, parameter.default)
        else:
            options.append(parameter.replace(annotation=hint, kind=parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def call(**given: Any) -> Any:
        built = {name: _built(cls, given) for name, cls in classes.items()}
        return function(**built, **given)

    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _options(cls: type, defaults: Any) -> Iterator[inspect.Parameter]:
    """Yield the parameters that stand for the fields of a dataclass."""
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        hint, default = hints[field.name], field.default
        if not isinstance(defaults, type):  # an object, not inspect.Parameter.empty
            default = getattr(defaults, field.name)
        if dataclasses.is_dataclass(hint):
            yield from _options(typing.cast("type", hint), default)
            continue
        text = _texts(cls).get(field.name, "")
        if text or get_origin(hint) is not Annotated:
            owner = next(base for base in cls.__mro__ if field.name in inspect.get_annotations(base))
            hint = _declared(field.name, hint, default, text, vars(owner).get("PANEL"))
        default = inspect.Parameter.empty if default is dataclasses.MISSING else default
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _declared(name: str, hint: Any, default: Any, text: str, panel: str | None) -> Any:
    """Complete the option of a field by the help below the field."""
    option = typer.Option()
    if get_origin(hint) is Annotated:
        hint, option = get_args(hint)
    option = copy.copy(option)
    option.help, option.rich_help_panel = text.replace("[", r"\["), panel  # a bracket is no markup
    if get_origin(hint) in (tuple, Sequence):
        option.parser, option.metavar = _listed(get_args(hint)[0]), LIST
        hint = Any
    elif Path in (hint, *get_args(hint)):
        option.metavar = option.metavar or "FILE"
    elif hint is bool and default is False:  # no --no-NAME
        option.param_decls = (f"--{name.replace('_', '-')}",)
    return Annotated[hint, option]


def _listed(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads a list with commas."""

    def listed(value: Any) -> tuple[Any, ...]:
        return tuple(kind(part.strip()) for part in value.split(",") if part) if isinstance(value, str) else value

    return listed


@functools.cache
def _texts(cls: type) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass, by name."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def _built(cls: type, given: dict[str, Any]) -> Any:
    """Build a dataclass; take its fields out of ``given``."""
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            field.name: _built(hints[field.name], given)
            if dataclasses.is_dataclass(hints[field.name])
            else given.pop(field.name)
            for field in dataclasses.fields(cls)
        }
    )
