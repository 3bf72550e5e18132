"""Command `schedulearn`.

Nothing here imports the web framework, the database, rich or httpx until a command needs it. Therefore
`schedulearn serve` is ready soon and `schedulearn ls` answers at once. A command's module is imported when it is
called; `--help` needs none of them.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence

import click

import schedulearn
from schedulearn.api.cli.common import INTERRUPTED, Group, clean
from schedulearn.api.cli.counterparts import COUNTERPARTS
from schedulearn.api.client.errors import ClientError
from schedulearn.api.feature import CommandEntry, CommandGroup, Feature, load

COMMANDS = {
    "serve": CommandEntry("service.serve:serve", "Run the service: API, scheduler and web page.", CommandGroup.SERVICE),
    "run": CommandEntry("submit:run", "Run a command in this folder on the cluster.", CommandGroup.RUN),
    "submit": CommandEntry("submit:submit", "Submit a job and follow it.", CommandGroup.RUN),
    "ls": CommandEntry("jobs:ls", "List jobs, newest first, with the reason for their state.", CommandGroup.LOOK),
    "show": CommandEntry("jobs:show", "Show a job: its keys, attempts and latest events.", CommandGroup.LOOK),
    "logs": CommandEntry("jobs:logs", "Print the log of a job, of all its attempts.", CommandGroup.LOOK),
    "files": CommandEntry("files:files", "List and download outputs and checkpoints of jobs.", CommandGroup.FILES),
    "cp": CommandEntry("files:cp", "Copy a file or folder of a job, like `files get`.", CommandGroup.FILES),
    "cancel": CommandEntry("lifecycle.cancel:cancel", "Cancel jobs.", CommandGroup.RUN),
    "hold": CommandEntry("lifecycle.hold:hold", "Keep waiting jobs from starting.", CommandGroup.RUN),
    "release": CommandEntry("lifecycle.hold:release", "Release held jobs.", CommandGroup.RUN),
    "pause": CommandEntry("lifecycle.hold:pause", "Pause elastic jobs with a checkpoint.", CommandGroup.RUN),
    "resume": CommandEntry("lifecycle.hold:resume", "Resume paused jobs.", CommandGroup.RUN),
    "prio": CommandEntry("jobs:prio", "Change a job's priority: 0 to 100, default 50.", CommandGroup.RUN),
    "top": CommandEntry("top:top", "Show GPUs, hosts, containers, jobs and the queue live.", CommandGroup.LOOK),
    "policy": CommandEntry("policy:policy", "Show and change the scheduling policy.", CommandGroup.CLUSTER),
    "hosts": CommandEntry("hosts:hosts", "Manage hosts and their GPUs.", CommandGroup.CLUSTER),
    "wait": CommandEntry(
        "lifecycle.wait:wait", "Wait until jobs have ended, and print their outcome.", CommandGroup.RUN
    ),
    "resubmit": CommandEntry("lifecycle.resubmit:resubmit", "Submit a job again and follow it.", CommandGroup.RUN),
    "rm": CommandEntry(
        "lifecycle.rm:rm", "Delete finished jobs with logs, checkpoints and measurements.", CommandGroup.RUN
    ),
    "init": CommandEntry("job_files.commands:init", "Write a job file with a comment for every key.", CommandGroup.RUN),
    "data": CommandEntry(
        "data.commands:data", "Manage data sets and models, which jobs use by name.", CommandGroup.FILES
    ),
    "events": CommandEntry("history:events", "Show events, oldest first.", CommandGroup.LOOK),
    "timeline": CommandEntry(
        "history:timeline", "Show which jobs used which GPUs, one line per container.", CommandGroup.LOOK
    ),
    "telemetry": CommandEntry(
        "history:telemetry", "Show mean and maximum utilization of GPUs and hosts.", CommandGroup.LOOK
    ),
}
"""Commands of the core, by name."""

_UNIX_ONLY = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"})

_HELP = """Schedulearn trains deep-learning jobs on the GPUs of a few hosts.

\b
Start the service, then run your own code on it and watch it:
  schedulearn serve
  schedulearn run --gpus 2 -- python train.py
  schedulearn ls

\b
JOB: the ID of a job, the beginning or end of its ID, or `last` for your newest job.
Environment: SCHEDULEARN_URL (default http://127.0.0.1:8000), SCHEDULEARN_TOKEN,
SCHEDULEARN_CA; without them, the service of `schedulearn login`.
Exit codes: 0 success, 1 failure, 2 invalid usage, 130 interrupted. `run`, `submit` and `logs -f` return the exit code
of the job: 124 if it reached its time limit, 130 if it was cancelled.
"""


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is needed."""

    def __init__(self, known: Mapping[str, tuple[str, CommandEntry]]) -> None:
        self._known = known
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            package, command = self._known[name]
            self._loaded[name] = load(package, command.place)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError("commands are added by features")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stay")

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class Cli(Group):
    """The command `schedulearn`, with the commands of the core and of features."""

    foreign = COUNTERPARTS

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = features
        self.known = {name: (__name__, command) for name, command in COMMANDS.items()}
        """Name -> (package, command)."""
        self.known |= {name: (each.package, command) for each in features for name, command in each.commands.items()}
        super().__init__(
            "schedulearn",
            _Commands(self.known),
            help=_HELP,
            no_args_is_help=True,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        told = "%(prog)s %(version)s"
        click.version_option(schedulearn.__version__, prog_name="schedulearn", message=told)(self)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in CommandGroup:
            named = [(name, entry.help) for name, (_, entry) in self.known.items() if entry.group is group]
            with formatter.section(group.value):
                formatter.write_dl(named)

    def run(self) -> None:
        """Run as the program. An error ends it with one line on stderr, not a traceback."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            code = self.main(prog_name="schedulearn", standalone_mode=False)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except ClientError as error:
            click.echo(f"Error: {clean(str(error))}", err=True)
            code = 1
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("schedulearn"):
                raise
            click.echo(f"Error: {_needs_more(error.name)}", err=True)
            code = 1
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


def _needs_more(module: str) -> str:
    """Return the sentence for a command that needs more than the extra `cli` installs."""
    if module in _UNIX_ONLY:
        return f"this command needs Linux or macOS (module {module}): on Windows, run it in WSL"
    return (
        f"this command needs the package {module}, which a laptop's installation leaves out: run it on a machine of "
        "the service, or pip install 'schedulearn[server]'"
    )
