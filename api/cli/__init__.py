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
from schedulearn.api.client.errors import ClientError
from schedulearn.api.feature import Command, Feature, load

COMMANDS = {
    "serve": Command("service.serve:serve", "Runs the service: API, scheduler and page."),
    "run": Command("submit:run", "Runs a command in this folder, somewhere on the cluster,..."),
    "submit": Command("submit:submit", "Submits a job and follows it: its log on stdout, its exit..."),
    "ls": Command("jobs:ls", "Lists jobs, newest first, and why each is in its state."),
    "show": Command("jobs:show", "Shows one job: what it asked for, its attempts, and what..."),
    "logs": Command("jobs:logs", "Prints what a job has written, of all its attempts."),
    "files": Command("files:files", "What a job wrote to /outputs, and its checkpoints: while..."),
    "cp": Command("files:cp", "Brings a file or a folder of a job here, as `files get` does."),
    "cancel": Command("lifecycle.cancel:cancel", "Ends jobs: those that wait at once, those that run by..."),
    "prio": Command("jobs:prio", "Changes a job's priority: 0 to 100, higher first, 50..."),
    "top": Command("top:top", "Shows GPUs, hosts, containers, running jobs and the queue,..."),
    "policy": Command("policy:policy", "The scheduling policy."),
    "hosts": Command("hosts:hosts", "The machines and their GPUs."),
    "wait": Command("lifecycle.wait:wait", "Waits until all of these jobs have ended, and prints how."),
    "resubmit": Command("lifecycle.resubmit:resubmit", "Submits a job again and follows it: the same image,..."),
    "rm": Command("lifecycle.rm:rm", "Deletes jobs that have ended, with all that they left:..."),
    "init": Command("job_files.commands:init", "Writes a job file with a comment for every key: FILE,..."),
    "data": Command("data.commands:data", "Data sets and models that jobs get by name: `schedulearn..."),
    "events": Command("history:events", "Shows what happened, oldest first; with -f what happens,..."),
    "timeline": Command("history:timeline", "Shows who had which GPUs when, oldest first: one line a..."),
    "telemetry": Command("history:telemetry", "Shows the mean and the highest utilisation, memory,..."),
}
"""Commands of the core, by name."""

_HELP = """Schedulearn: trains deep-learning jobs on the GPUs of a few hosts.

\b
Start the service, then run your own code on it and watch it:
  schedulearn serve
  schedulearn run --gpus 2 -- python train.py
  schedulearn ls

\b
Where a JOB is asked for: its id, the beginning or end of it, or `last`.
Environment: SCHEDULEARN_URL (default http://127.0.0.1:8000), SCHEDULEARN_TOKEN,
SCHEDULEARN_CA.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; `run`, `submit` and `logs -f` end with the job's own
exit code, 124 if it ran into its time limit, 130 if it was cancelled.
"""


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is needed."""

    def __init__(self, known: Mapping[str, tuple[str, Command]]) -> None:
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
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.known[name][1].help) for name in self.list_commands(ctx)])

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
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)
