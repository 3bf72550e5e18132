"""Options of Slurm's commands, read from words as getopt reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Syntax:
    """Options of one command.

    `short`: letter -> long name. `flags`: options without a value; `optional`: those with a value only after `=`;
    `valued`: all others."""

    command: str
    short: Mapping[str, str]
    valued: frozenset[str]
    flags: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    strict: bool = True
    """Whether an unknown option is an error. If not, it takes the next word unless that looks like an option."""
    _known: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", self.valued | self.flags | self.optional)

    def full_name(self, given: str) -> str:
        """Return the name of an option that is given in full or by its beginning. Raises ValueError."""
        if given in self._known:
            return given
        longer = [name for name in self._known if name.startswith(given)]
        if len(longer) == 1:
            return longer[0]
        if longer:
            raise ValueError(f"{self.command}: --{given} is ambiguous: it may mean --{', --'.join(sorted(longer)[:5])}")
        if self.strict:
            raise ValueError(f"{self.command}: --{given} is not known here; see docs/from-slurm.md")
        return given


def parse(words: Sequence[str], syntax: Syntax) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options with their values, and the words from the first that is no option. Raises ValueError."""
    rest = list(words)
    found: list[tuple[str, str]] = []
    while rest:
        word = rest[0]
        if word == "--":
            return found, rest[1:]
        if not word.startswith("-") or word == "-":
            break
        rest.pop(0)
        if word.startswith("--"):
            _take_long(word[2:], rest, syntax, found)
        else:
            _take_short(word[1:], rest, syntax, found)
    return found, rest


def _take_long(word: str, rest: list[str], syntax: Syntax, found: list[tuple[str, str]]) -> None:
    given, equals, value = word.partition("=")
    name = syntax.full_name(given)
    if not equals:
        value = _next(name, rest, syntax)
    found.append((name, value))


def _take_short(word: str, rest: list[str], syntax: Syntax, found: list[tuple[str, str]]) -> None:
    while word:
        letter, word = word[0], word[1:]
        name = syntax.short.get(letter)
        if name is None:
            if syntax.strict:
                raise ValueError(f"{syntax.command}: -{letter} is not known here; see docs/from-slurm.md")
            name = letter
        if name in syntax.flags:
            found.append((name, ""))
            continue
        value = word.removeprefix("=") if word else _next(name, rest, syntax)
        found.append((name, value))
        return


def _next(name: str, rest: list[str], syntax: Syntax) -> str:
    """Return the value of an option that stands in the next word. Raises ValueError."""
    if name in syntax.flags or name in syntax.optional:
        return ""
    if not syntax.strict:
        return rest.pop(0) if rest and not rest[0].startswith("-") else ""
    if not rest:
        raise ValueError(f"{syntax.command}: --{name} needs a value")
    return rest.pop(0)


_JOB_SHORT = {
    "J": "job-name", "t": "time", "G": "gpus", "c": "cpus-per-task", "N": "nodes", "n": "ntasks", "a": "array",
    "d": "dependency", "p": "partition", "A": "account", "o": "output", "e": "error", "D": "chdir", "w": "nodelist",
    "x": "exclude", "q": "qos", "C": "constraint", "H": "hold", "i": "input", "s": "oversubscribe", "Q": "quiet",
    "b": "begin", "M": "clusters", "F": "nodefile", "k": "no-kill", "L": "licenses", "W": "wait", "v": "verbose",
    "O": "overcommit", "S": "core-spec", "m": "distribution", "I": "immediate", "h": "help", "V": "version",
    "B": "extra-node-info",
}  # fmt: skip
_JOB_FLAGS = frozenset({
    "hold", "requeue", "no-requeue", "quiet", "oversubscribe", "verbose", "wait", "overcommit", "contiguous",
    "spread-job", "use-min-nodes", "ignore-pbs", "parsable", "test-only", "reboot", "help", "version", "usage",
})  # fmt: skip
_JOB_OPTIONAL = frozenset({"exclusive", "no-kill", "nice", "get-user-env", "propagate", "kill-on-invalid-dep"})
_JOB_VALUED = frozenset({
    "job-name", "time", "time-min", "gpus", "gres", "gres-flags", "gpus-per-node", "gpus-per-task", "gpus-per-socket",
    "cpus-per-task", "cpus-per-gpu", "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-core",
    "ntasks-per-socket", "mem", "mem-per-cpu", "mem-per-gpu", "mem-bind", "array", "account", "export", "export-file",
    "container-image", "deadline", "signal", "comment", "begin", "constraint", "hint", "gpu-bind", "gpu-freq",
    "cpu-bind", "cpu-freq", "distribution", "mail-type", "mail-user", "partition", "qos", "dependency", "chdir",
    "nodelist", "exclude", "input", "output", "error", "open-mode", "priority", "reservation", "licenses", "clusters",
    "cluster-constraint", "nodefile", "core-spec", "thread-spec", "extra-node-info", "mincpus", "tmp", "switches",
    "threads-per-core", "cores-per-socket", "sockets-per-node", "uid", "gid", "wckey", "profile", "power", "bb", "bbf",
    "acctg-freq", "burst-buffer", "container", "delay-boot", "wrap", "prefer", "tres-per-task", "tres-bind",
})  # fmt: skip
SCRIPT = Syntax("sbatch", _JOB_SHORT, _JOB_VALUED, _JOB_FLAGS, _JOB_OPTIONAL, strict=False)
"""Lines of #SBATCH, for `import slurm`: an unknown option is told with its line."""
SBATCH = Syntax("sbatch", _JOB_SHORT, _JOB_VALUED, _JOB_FLAGS, _JOB_OPTIONAL)
_STEP_SHORT = {
    **_JOB_SHORT, "W": "wait", "u": "unbuffered", "l": "label", "K": "kill-on-bad-exit", "X": "disable-status",
    "T": "threads", "E": "preserve-env",
}  # fmt: skip
_STEP_FLAGS = (_JOB_FLAGS - {"wait", "requeue", "no-requeue", "parsable"}) | {
    "pty", "unbuffered", "label", "disable-status", "preserve-env", "overlap", "exact", "whole", "multi-prog",
}  # fmt: skip
_STEP_VALUED = (_JOB_VALUED - {"wrap", "array"}) | {
    "wait",
    "jobid",
    "mpi",
    "threads",
    "task-prolog",
    "task-epilog",
    "het-group",
}
STEP = Syntax("srun", _STEP_SHORT, _STEP_VALUED, _STEP_FLAGS, _JOB_OPTIONAL | {"kill-on-bad-exit"})
"""Options of srun and salloc."""
