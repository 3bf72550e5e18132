"""Shared parts of commands: options, client, job IDs and output."""

from __future__ import annotations

import getpass
import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from schedulearn.api.client.errors import ApiError, ClientError
from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.core.suggestions import did_you_mean

if TYPE_CHECKING:
    import click.shell_completion
    from rich.console import Console, RenderableType
    from rich.table import Table

    from schedulearn import Client
    from schedulearn.api.client.client import Json

INTERRUPTED = 130  # as a shell reports Ctrl-C
TIMED_OUT = 124  # as timeout(1) does
_FULL_ID = re.compile(r"[0-9a-z]{10}")

Cell = str | tuple[str, str]
"""Text, or (text, style of rich), not escaped: printing does that."""

STATE_STYLES: dict[str, str] = {
    JobState.QUEUED: "yellow",
    JobState.PULLING: "cyan",
    JobState.STARTING: "cyan",
    JobState.RUNNING: "green",
    JobState.RESIZING: "magenta",
    JobState.STOPPING: "magenta",
    JobState.SUCCEEDED: "dim green",
    JobState.FAILED: "bold red",
    JobState.CANCELLED: "dim",
    JobState.TIMEOUT: "red",
}


@dataclass
class CliSession:
    """Shared options of one call, and its client."""

    as_json: bool = False
    url: str | None = None
    ca: str | None = None
    token: str | None = None
    """None: that of the environment or the context; empty: none is sent."""
    _client: Client | None = field(default=None, repr=False)

    @property
    def client(self) -> Client:
        if self._client is None:
            _leave_out_httpx_command()
            from schedulearn import Client

            self._client = Client(self.url, self.token, ca=self.ca)
            if context := click.get_current_context(silent=True):
                context.find_root().call_on_close(self._client.close)
        return self._client

    def trust(self, ca: str) -> None:
        """Trust another certificate from now on."""
        self.client.close()
        self.ca, self._client = ca, None

    @property
    def pretty(self) -> bool:
        """Whether stdout is a terminal, and --json is not given."""
        return sys.stdout.isatty() and not self.as_json

    def user(self) -> str:
        """Return the user who owns your jobs.

        It is your account at the service; for an admin, the account that runs this command."""
        me = self.client.whoami()
        return whoami() if me["role"] == Role.ADMIN else str(me["name"])

    def job_id(self, given: str) -> str:
        """Return the job's ID for an ID, an unambiguous beginning or end of one, or `last`.

        `last` is your own newest job, so that `cancel last` never ends a colleague's."""
        if given == "last":
            user = self.user()
            newest = self.client.jobs(user=user, limit=1)["items"] if user else []
            if not newest:
                raise ClientError(
                    f"{user or 'this account'} has submitted no job: `schedulearn ls --all` shows the jobs of all users"
                )
            return str(newest[0]["id"])
        if _FULL_ID.fullmatch(given):
            try:
                return str(self.client.job(given)["id"])
            except ApiError as error:
                if error.status != 404:
                    raise
        text = given.lower()
        known = [job["id"] for job in self.client.all_jobs(q=text)["items"]] if text.isalnum() else []
        found = [each for each in known if each.startswith(text) or each.endswith(text)]
        if len(found) == 1:
            return str(found[0])
        if not found:
            raise ClientError(f"there is no job {given!r}: see `schedulearn ls --all`")
        raise ClientError(
            f"{given!r} is ambiguous: it may mean {', '.join(found[:4])}{' and more' if found[4:] else ''}; "
            "write more of it"
        )


pass_session = click.make_pass_decorator(CliSession, ensure=True)


def _leave_out_httpx_command() -> None:
    """Import httpx without its own command line, which imports rich and Pygments.

    That would take a third of the time of `schedulearn ls`. None in `sys.modules` makes an import fail, and httpx works
    without it."""
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]
        importlib.import_module("httpx")
        del sys.modules["httpx._main"]


def whoami() -> str:
    """Return the account that runs this command; empty if it has no name."""
    try:
        return getpass.getuser()[:100]
    except (ImportError, KeyError, OSError):  # ImportError: on Windows without USERNAME
        return ""


def key_and_value(given: str, option: str) -> tuple[str, str]:
    """The parts of KEY=VALUE. Raises click.BadParameter."""
    name, equals, value = given.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{clean(given)!r} is not KEY=VALUE", param_hint=option)
    return name, value


def _shared_options() -> list[click.Parameter]:
    def remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
        def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
            if value:
                setattr(context.ensure_object(CliSession), name, value)

        return callback

    return [
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            expose_value=False,
            callback=remember("as_json"),
            help="Print the response of the API as JSON.",
        ),
        click.Option(
            ["--url"],
            metavar="URL",
            expose_value=False,
            callback=remember("url"),
            help="Address of the service; overrides SCHEDULEARN_URL.",
        ),
        click.Option(
            ["--ca"],
            metavar="FILE",
            expose_value=False,
            callback=remember("ca"),
            help="Certificate to trust, or its sha256:...; overrides SCHEDULEARN_CA.",
        ),
    ]


SHARED = tuple(str(option.name) for option in _shared_options())
"""Names of the shared options. A command that reuses the options of another has them already."""


class JobParam(click.types.StringParamType):
    """ID of a job, which a shell completes."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from schedulearn.api.cli.completion import job_items

        return job_items(ctx, incomplete)


JOB = JobParam()


class Command(click.Command):
    """Command that also takes the shared options. Errors of the service name its flags."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            if isinstance(param, click.Argument) and param.name in ("job", "jobs"):
                param.type = JOB
        self.params += _shared_options()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ApiError as error:
            raise _naming_flags(error, ctx) from error


def _naming_flags(error: ApiError, context: click.Context) -> ApiError:
    """Return the same error, with the flag's name in place of each field that a flag set."""
    flags = {
        str(param.name).removesuffix("_"): max(param.opts, key=len)
        for param in context.command.params
        if isinstance(param, click.Option)
        and context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    }
    fields = [str(each["field"]) for each in error.errors]
    named = [flags.get(field.partition(".")[0], field) for field in fields]
    if named == fields:
        return error
    told = [
        f"{name}: {each['message']}" if name else str(each["message"])
        for name, each in zip(named, error.errors, strict=True)
    ]
    return ApiError(error.status, error.code, "; ".join(told), error.errors)


class Group(click.Group):
    """Group that takes the shared options, as its commands do: they may come before or after the command."""

    command_class = Command
    group_class = type
    foreign: Mapping[str, str] = {
        "create": "add", "delete": "rm", "describe": "show", "get": "show", "list": "ls", "new": "add", "remove": "rm",
    }  # fmt: skip
    """Names that other tools use, and the command of this group that does the same."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or name in self.commands:
            return super().resolve_command(ctx, args)
        theirs = self.foreign.get(name.lower(), "")
        if theirs.partition(" ")[0] in self.commands:
            hint = f"; use `{ctx.command_path} {theirs}`"
        else:
            hint = did_you_mean(name, self.commands)
        raise click.UsageError(f"No such command {clean(name)!r}{hint or '.'}", ctx)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += _shared_options()


def clean(text: str) -> str:
    """Return `text` with its control characters and invisible characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(data: object) -> None:
    click.echo(json.dumps(data, indent=2))


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints every text literally."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_table(session: CliSession, headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print aligned columns.

    On a terminal they have colours and fit its width; the first column is never cut."""
    if session.pretty:
        console().print(rich_table(headers, rows))
        return
    for line in plain_table(headers, rows):
        click.echo(line)


def rich_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for index, header in enumerate(headers):
        last = index == len(headers) - 1
        table.add_column(header, no_wrap=not last, overflow="fold" if last else "ellipsis")
        # A long name may be cut, an ID never.
        table.columns[-1].min_width = (
            max((len(clean(_text(row[0]))) for row in rows), default=2) if index == 0 else None
        )
    for row in rows:
        table.add_row(*[rich_cell(cell) for cell in row])
    return table


def rich_cell(cell: Cell) -> RenderableType:
    from rich.text import Text

    return Text(clean(cell)) if isinstance(cell, str) else Text(clean(cell[0]), style=cell[1])


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    table = [list(headers), *([clean(_text(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(headers))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def state_cell(job: Json) -> tuple[str, str]:
    state = str(job["state"])
    percent = job.get("pull_percent")
    label = f"{state} {percent:.0f}%" if state == JobState.PULLING and percent is not None else state
    if hang := job.get("hang"):
        return f"{state}: {hang['kind'].replace('_', ' ')}", "yellow"
    return label, STATE_STYLES.get(state, "")


def exit_code(job: Json) -> int:
    """Return the exit code of the command line for a job that has ended."""
    match job["state"]:
        case JobState.SUCCEEDED:
            return 0
        case JobState.CANCELLED:
            return INTERRUPTED
        case JobState.TIMEOUT:
            return TIMED_OUT
    code = job["exit_code"]
    return code if isinstance(code, int) and 0 < code < 256 else 1
