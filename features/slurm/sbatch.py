"""Translation of Slurm batch scripts into jobs, with notes on the rest."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from schedulearn.api.cli.times import parse_start
from schedulearn.api.client.client import Json
from schedulearn.features.slurm import inside
from schedulearn.features.slurm.numbers import ARRAY, TASK, indices, new_array
from schedulearn.features.slurm.options import SBATCH, SCRIPT, parse
from schedulearn.features.slurm.sources import named_in
from schedulearn.scheduler.core.notices import MAX_RECIPIENTS, ME

MAX_TASKS = 10_000
"""Maximum jobs of one array, the same as of a batch."""
_USED = {"job-name", "time", "gpus", "gres", "gpus-per-node", "gpus-per-task", "cpus-per-task", "cpus-per-gpu",
         "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "mem", "mem-per-cpu", "mem-per-gpu", "array",
         "account", "export", "container-image", "deadline", "signal", "requeue", "no-requeue", "quiet", "verbose",
         "comment", "begin", "hold", "constraint", "hint", "gpu-bind", "cpu-bind", "distribution", "parsable",
         "mail-type", "mail-user", "nodelist", "exclude", "exclusive"}  # fmt: skip
_COUNTS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu")
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_GPU_OPTIONS = ("gpus", "gres", "gpus-per-node", "gpus-per-task")
_NATIVE = {"dependency", "chdir", "wait", "test-only", "wrap", "open-mode", "get-user-env", "propagate", "ignore-pbs",
           "kill-on-invalid-dep", "no-kill", "spread-job", "use-min-nodes", "contiguous", "kill-on-bad-exit", "pty",
           "label", "unbuffered"}  # fmt: skip
"""More options that mean the same, or nothing, where `sbatch`, `srun` and `salloc` of this package submit."""
_ONE_PARTITION = {"partition": "there is one partition; the service chooses the hosts", "qos": "there are no QOS"}
_ANYWAY = {
    "output": "the log is kept: `schedulearn logs`",
    "error": "the log is kept: `schedulearn logs`",
}
_ELSEWHERE = {
    "partition": "there are no partitions; the service chooses hosts",
    "qos": "set the key priority, 0 to 100",
    "dependency": "name the other job by its id here: `schedulearn submit --after JOB` (or --after-any), key `after`",
    "chdir": "send the folder with the job: `schedulearn submit --code FOLDER`",
    "input": "stdin is empty: read the file in the script",
}
_HOST_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(,[A-Za-z0-9][A-Za-z0-9._-]{0,62}){0,99}")
_MAIL_TYPES = {
    "BEGIN": ("start",),
    "END": ("end",),
    "FAIL": ("failure",),
    "TIME_LIMIT": ("failure",),
    "REQUEUE": ("preemption",),
    "INVALID_DEPEND": ("end",),
    "ALL": ("start", "end", "failure", "preemption"),
}
"""Value of --mail-type -> events of notices."""
_VARIABLES = {
    "SLURM_JOB_ID": "$SCHEDULEARN_JOB_ID",
    "SLURM_JOBID": "$SCHEDULEARN_JOB_ID",
    "SLURM_GPUS": "$SCHEDULEARN_NUM_GPUS",
    "SLURM_GPUS_ON_NODE": "$((SCHEDULEARN_NUM_GPUS / SCHEDULEARN_NUM_NODES))",
    "SLURM_NNODES": "$SCHEDULEARN_NUM_NODES",
    "SLURM_JOB_NUM_NODES": "$SCHEDULEARN_NUM_NODES",
    "SLURM_NODEID": "$SCHEDULEARN_NODE_RANK",
    "SLURM_SUBMIT_DIR": "$PWD",
    "SLURM_RESTART_COUNT": "$SCHEDULEARN_RESTARTS",
}
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "": 1 << 20}
_SPANS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
_DAYTIMES = {"midnight": "00:00", "noon": "12:00", "elevenses": "11:00", "fika": "15:00", "teatime": "16:00"}
_GPUS = ("gpu", "gres/gpu")
_NO_TYPE = re.compile(r"-.*|\d+[KMGTP]", re.IGNORECASE)
"""Words in place of a count of GPUs that are no type: `1K` is 1024 in Slurm."""
_SHELLS = {"sh", "bash", "dash", "ksh", "zsh"}
_GPU = re.compile(r"[a-z]{1,4}\d{1,4}[a-z]{0,4}([_-]\d+gb?)?", re.IGNORECASE)
"""Names of host features that mean a GPU type: a100, v100-32g, rtx3090, l40s."""
_COMMANDS = re.compile(r"(?<![\w./-])(srun|sbatch|salloc|scontrol|scancel|squeue|sacct|sinfo|sbcast)(?![\w-])")
_HOSTNAMES = re.compile(r"\bscontrol\s+show\s+hostnames?\b")
_MODULE = re.compile(r"(?:^|[;&|]\s*)\s*(?:module|ml)\s+\S")
_ARGUMENTS = re.compile(r"\$(?:[1-9@*#]|\{[1-9@*][^}]*\}|\{#\})")
_SHELL_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)")
_QUOTED_NAME = re.compile(r"""["']([A-Za-z_]\w*)["']""")
_OF_MACHINE = re.compile(
    r"(PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|HOSTNAME|TERM|LANG|TMPDIR|TMP|TEMP|MAIL|EDITOR|PAGER|DISPLAY|IFS|_|UID|"
    r"EUID|PPID|SHLVL|PS\d|LC_\w+|LD_\w+|XDG_\w+|SSH_\w+|DBUS_\w+|SLURM\w*|SCHEDULEARN_\w+|CUDA_VISIBLE_DEVICES|"
    r"NVIDIA_\w+|PYTHON(HOME|PATH)|VIRTUAL_ENV|CONDA_\w+)$"
)
"""Variables that are true of one machine or shell, and would mislead a container."""
_OF_SHELL = re.compile(
    r"(BASH\w*|SHELLOPTS|PROMPT_COMMAND|HIST\w+|LINES|COLUMNS|LS_COLORS|COLORTERM|LESS\w*|MANPATH|INFOPATH|SUDO_\w+|"
    r"S(BATCH|RUN|ALLOC|QUEUE|ACCT|INFO)_\w+|SYSTEMD_\w+|INVOCATION_ID|JOURNAL_STREAM|KRB5CCNAME|GPG_AGENT_INFO|"
    r"TERM_\w+|VSCODE_\w+|VTE_VERSION|WINDOWID|TMUX\w*|STY|I?MODULE\w*|LOADEDMODULES|_\w*)$"
)
"""More of them, which --export=ALL leaves out."""
_SENT_SHOWN = 10
_SINGLE_QUOTED = re.compile(r"'[^']*'")
_FUNCTION = re.compile(r"\s*(?:function\s+[\w-]+\s*(?:\(\s*\))?|[\w-]+\s*\(\s*\))\s*(?:\{|$)")
_VARIABLE = re.compile(r"\bSLURMD?_\w+\b(?!:?[-+?=])")
"""Variables that a line needs, without those that have a default there or that it sets."""
_SHOWN = 120
"""Maximum characters of a line in a note."""
_SIGNAL_BEFORE_S = 60
"""Seconds before the limit at which Slurm sends a signal by default."""


@dataclass(frozen=True)
class Interpreter:
    """Program that runs the script, by its first line: words such as `bash -e` or `python3 -u`."""

    words: tuple[str, ...] = ("bash",)

    @property
    def is_shell(self) -> bool:
        return self.words[0].rpartition("/")[2] in _SHELLS


@dataclass
class Imported:
    """Jobs of a batch script.

    `jobs`: one, or one for each task of an array. `at_once`: maximum tasks of an array that run at once; None: not set.
    `remarks`: notes of interest. `untranslated`: parts of the script without an effect here, each with its line.
    `options`: the script's, after those of the command line. `places`: where each stands, for errors.
    """

    jobs: list[Json] = field(default_factory=list)
    at_once: int | None = None
    remarks: list[str] = field(default_factory=list)
    untranslated: list[str] = field(default_factory=list)
    options: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        return [*self.untranslated, *self.remarks]

    def sweep_needed(self, tasks: int) -> bool:
        """Whether fewer than all tasks may run at once."""
        return self.at_once is not None and self.at_once < tasks

    @property
    def sweep(self) -> Json | None:
        """The array as a sweep; None if all of its tasks may run at once."""
        if not self.sweep_needed(len(self.jobs)):
            return None
        shared = dict(self.jobs[0])
        name = shared.pop("labels")["array"]
        number = "SLURM_ARRAY_TASK_ID"
        del shared["name"]
        shared["env"] = {key: value for key, value in shared["env"].items() if key != number}
        runs = [{f"env.{number}": job["env"][number]} for job in self.jobs]
        return {"name": name, "job": shared, "list": runs, "max_parallel": self.at_once}


@dataclass(frozen=True)
class _Script:
    """Options and commands of a batch script, each with its line."""

    options: Mapping[str, tuple[int, str]]
    interpreter: Interpreter
    lines: Sequence[tuple[int, str]]

    @property
    def body(self) -> str:
        return "\n".join(line for _, line in self.lines).strip()

    @property
    def commands(self) -> Iterator[tuple[int, str]]:
        """Lines that are not comments."""
        return ((number, line) for number, line in self.lines if not line.lstrip().startswith("#"))

    def __contains__(self, option: str) -> bool:
        return option in self.options

    def get(self, option: str) -> str:
        return self.options.get(option, (0, ""))[1]

    def at(self, option: str) -> str:
        line, value = self.options[option]
        return f"{f'line {line}: ' if line else ''}--{option}{'=' if value else ''}{value}"

    def number(self, option: str, default: int = 0) -> int:
        """Return the value of an option: 4 for `4`, 2 for `2-4`. Raises ValueError."""
        text = self.get(option)
        match = re.match(r"\d+", text)
        if text and match is None:
            raise ValueError(f"{self.at(option)}: {text!r} is not a number")
        return int(match[0]) if match else default

    @property
    def nodes(self) -> int:
        return max(1, self.number("nodes", 1))

    @property
    def tasks_per_node(self) -> int:
        """Tasks per node, as Slurm counts: by --ntasks, else --ntasks-per-node, else GPUs, else one."""
        if tasks := self.number("ntasks"):
            return -(-tasks // self.nodes)
        if per_node := self.number("ntasks-per-node"):
            return per_node
        if (per_gpu := self.number("ntasks-per-gpu")) and "gpus-per-task" not in self:
            return max(1, per_gpu * gpus_asked(self)[0] // self.nodes)
        return 1

    @property
    def tasks(self) -> int:
        return self.number("ntasks") or self.tasks_per_node * self.nodes


def from_sbatch(
    text: str,
    name: str,
    image: str | None,
    arguments: tuple[str, ...] = (),
    *,
    given: Sequence[tuple[str, str]] = (),
    native: Mapping[str, str] | None = None,
) -> Imported:
    """Return the jobs that `sbatch GIVEN FILE ARGUMENTS` would make.

    `name`, `image`: job name and container image if the script sets none. `given`: options of the command line, which
    come before those of the script. `native`: the environment of a submission as by Slurm's own `sbatch`: the job gets
    all variables of Slurm, its processors are those that Slurm would give, and `srun` works in it. None: a job file is
    made, which says no more than it must. Raises ValueError.
    """
    script = _read(text, given, strict=native is not None)
    made = Imported(
        options={option: value for option, (_, value) in script.options.items()},
        places={option: script.at(option) for option in script.options},
    )
    image = script.get("container-image") or image
    if not image:
        raise ValueError("Slurm's scripts run on the host, jobs run in an image: name one with --image")
    harmless = _ANYWAY if native is None else {**_ANYWAY, **_ONE_PARTITION}
    for option in sorted(script.options.keys() - (_USED if native is None else _USED | _NATIVE)):
        if option in harmless:
            made.remarks.append(f"{script.at(option)}: {harmless[option]}")
        else:
            what = _ELSEWHERE.get(option, "has no counterpart here, and is left out")
            made.untranslated.append(f"{script.at(option)}: {what}")
    if script.get("mem") == "0":
        made.untranslated.append(f"{script.at('mem')}: asks for all memory of the host; set a size")
    if native is not None:
        made.untranslated += _conflicts(script)
    _add_missing(script, made, native is not None)
    if not arguments and native is None:
        made.untranslated += _without_arguments(script)
    name = script.get("job-name") or name
    env = _exported(script, made, native)
    gpus, gpu_type = gpus_asked(script)
    if script.nodes > 1:
        made.untranslated.append(
            f"{script.at('nodes')}: the service chooses the hosts; on several, the script runs once on each"
        )
    job: Json = {
        "name": name,
        "type": "Slurm",
        "container_image": image,
        "command": shlex.join(_command(script, name, env, arguments, made, native)),
        "required_gpus": gpus,
        "launcher": "none",
        **_type(script, gpu_type, gpus, made),
        **_limits(script, gpus, made, native is not None),
        **_where(script, gpus, made),
        **_when(script, made),
    }
    if "requeue" in script and "no-requeue" not in script:
        job["preemptible"] = True
    if native is not None:
        env |= _variables_of(script, job, native)
    if env:
        job["env"] = env
    job |= _notices(script, made)
    job |= _texts(script)
    _add_tasks(job, script, made, native is not None)
    return made


def _variables_of(script: _Script, job: Json, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of Slurm that are known at submission, as its `sbatch` sets them."""
    cpus, tasks = str(job["cpus"]), str(script.tasks)
    counted = bool({"ntasks", "ntasks-per-node", "ntasks-per-gpu"} & script.options.keys())
    # Slurm counts the processors of GPUs as tasks.
    per_node = cpus if "cpus-per-gpu" in script and not counted else tasks
    found = {
        "SLURM_JOB_NAME": job["name"],
        "SLURM_CPUS_ON_NODE": cpus,
        "SLURM_JOB_CPUS_PER_NODE": cpus,
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_CLUSTER_NAME": "schedulearn",
        "SLURM_JOB_PARTITION": "main",
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "1"),
        **dict.fromkeys(("SLURM_GTIDS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_PROCID"), "0"),
    }
    if counted:
        found |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), tasks)
    for option in ("cpus-per-task", "cpus-per-gpu", "ntasks-per-node", "ntasks-per-gpu", "gpus", "gpus-per-node",
                   "gpus-per-task"):  # fmt: skip
        if option in script:
            found[f"SLURM_{option.replace('-', '_').upper()}"] = script.get(option)
    for option, name in (("mem", "NODE"), ("mem-per-cpu", "CPU"), ("mem-per-gpu", "GPU")):
        if option in script:
            found[f"SLURM_MEM_PER_{name}"] = str(_size(script, option) >> 20)
    if job["required_gpus"]:
        found["SLURM_GPUS_ON_NODE"] = str(job["required_gpus"])
    if user := environment.get("USER"):
        found["SLURM_JOB_USER"] = user
    if "export" in script:
        found |= {"SLURM_EXPORT_ENV": script.get("export"), "SLURM_GET_USER_ENV": "1"}
    return found


def _where(script: _Script, gpus: int, made: Imported) -> Json:
    """Return the keys `hosts`, `exclude_hosts` and `exclusive`, where they mean the same as in Slurm."""
    found: Json = {}
    listed, excluded = script.get("nodelist"), script.get("exclude")
    if _HOST_NAMES.fullmatch(listed) and "," not in listed and script.nodes == 1:
        found["hosts"] = [listed]
    elif listed:  # in Slurm, the job gets all of these nodes
        made.untranslated.append(f"{script.at('nodelist')}: set the key hosts: a job runs on one or more of those")
    if _HOST_NAMES.fullmatch(excluded):
        found["exclude_hosts"] = excluded.split(",")
    elif excluded:
        made.untranslated.append(f"{script.at('exclude')}: write each host by name: the key exclude_hosts")
    if "exclusive" in script:
        if gpus and not script.get("exclusive"):
            found["exclusive"] = True
        else:
            made.untranslated.append(f"{script.at('exclusive')}: only jobs with GPUs have hosts alone: key exclusive")
    return found


def _notices(script: _Script, made: Imported) -> Json:
    """Return the keys `notify` and `notify_on`, by --mail-user and --mail-type."""
    kinds = [kind for kind in script.get("mail-type").upper().split(",") if kind]
    if "NONE" in kinds:
        return {}
    if not kinds:
        if "mail-user" in script:
            made.remarks.append(f"{script.at('mail-user')}: without --mail-type, Slurm sends nothing")
        return {}
    events = dict.fromkeys(event for kind in kinds for event in _MAIL_TYPES.get(kind, ()))
    if unknown := [kind for kind in kinds if kind not in _MAIL_TYPES]:
        made.untranslated.append(f"{script.at('mail-type')}: {unknown[0]} has no counterpart here")
    if not events:
        return {}
    named = [user for user in script.get("mail-user").split(",") if user]
    recipients = dict.fromkeys(user if "@" in user else ME for user in named or [ME])
    if len(recipients) > MAX_RECIPIENTS:
        made.untranslated.append(f"{script.at('mail-user')}: a job has at most {MAX_RECIPIENTS} recipients")
    if script.get("array"):
        made.remarks.append("notify: each task of the array sends its own, Slurm sends one for all")
    if ME in recipients:
        made.remarks.append("notify: me: means your addresses: add one with `schedulearn notify add`")
    else:
        made.remarks.append("notify: needs a service that sends e-mail; else leave it out")
    return {"notify": list(recipients)[:MAX_RECIPIENTS], "notify_on": list(events)}


def _read(text: str, given: Sequence[tuple[str, str]], *, strict: bool) -> _Script:
    options: dict[str, tuple[int, str]] = {}
    lines: list[tuple[int, str]] = []
    interpreter = Interpreter()
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if number == 1 and line.startswith("#!"):
            interpreter = _interpreter(line)
        elif line.startswith("#SBATCH") and not begun:
            for option, value in _split(line, number, strict=strict):
                options[option] = (number, value)
        else:
            begun = begun or bool(line.strip() and not line.startswith("#"))
            lines.append((number, line))
    options |= {option: (0, value) for option, value in given}
    script = _Script(options, interpreter, lines)
    if not script.body:
        raise ValueError("the script has no command")
    return script


def _interpreter(line: str) -> Interpreter:
    """Return the interpreter that a script's first line names, without `env`."""
    words = shlex.split(line.removeprefix("#!"))
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if word not in ("-S", "--split-string")]
    if not words:
        return Interpreter()
    # The image may have the shell or Python at another path than the host.
    return Interpreter((words[0].rpartition("/")[2], *words[1:]))


def _conflicts(script: _Script) -> Iterator[str]:
    """Yield options that mean more than one host, or something else than their counterpart here."""
    for option in _COUNTS:
        if option in script and not re.fullmatch(r"[1-9]\d{0,8}", script.get(option)):
            yield f"{script.at(option)}: {script.get(option)!r} is not a number from 1"
    memory = [option for option in _MEMORY if option in script]
    if len(memory) > 1:
        yield f"{script.at(memory[-1])}: excludes {script.at(memory[0])}"
    counts = {option: gpus_asked(script, [option])[0] for option in _GPU_OPTIONS if option in script}
    if len(set(filter(None, counts.values()))) > 1:
        yield f"{', '.join(script.at(option) for option in counts)}: ask for different numbers of GPUs"
    yield from _gpu_faults(script)
    tasks, per_node = script.number("ntasks"), script.number("ntasks-per-node")
    if tasks and per_node and -(-tasks // per_node) > script.nodes:
        yield f"{script.at('ntasks-per-node')}: {tasks} tasks need {-(-tasks // per_node)} hosts, and a job gets one"
    if "exclusive" in script:
        yield f"{script.at('exclusive')}: takes a whole host: set --cpus-per-task, --mem and --gpus"
    for number, words in _steps(script):
        if fault := inside.step_fault(words):
            yield f"line {number}: srun {fault}"


def _steps(script: _Script) -> Iterator[tuple[int, list[str]]]:
    """Yield the words after each `srun` of the script; lines that end with a backslash go on."""
    joined: list[tuple[int, str]] = []
    for number, line in script.commands:
        if joined and joined[-1][1].endswith("\\"):
            joined[-1] = (joined[-1][0], joined[-1][1][:-1] + line)
        else:
            joined.append((number, line))
    for number, line in joined:
        for match in re.finditer(r"(?<![\w./-])srun(?![\w-])", line):
            try:
                yield number, shlex.split(line[match.end() :], comments=True)
            except ValueError:  # quotes around it, or on several lines
                yield number, line[match.end() :].split()


def _add_missing(script: _Script, made: Imported, native: bool) -> None:
    """Add notes on late options, and on commands and modules that a container does not have."""
    for number, line in script.lines:
        if line.startswith("#SBATCH"):
            made.untranslated.append(f"line {number}: comes after the first command, where sbatch ignores it as well")
    for number, line in script.commands:
        found = dict.fromkeys(_COMMANDS.findall(_HOSTNAMES.sub("", line) if native else line))
        if native:
            found.pop("srun", None)
        if "srun" in found:
            made.untranslated.append(
                f"line {number}: calls srun, which a container does not have: write the command alone"
            )
        if others := [each for each in found if each != "srun"]:
            made.untranslated.append(
                f"line {number}: calls {', '.join(others)}, which a container does not have: {line.strip()[:_SHOWN]}"
            )
        if _MODULE.search(line):
            notes = made.remarks if native else made.untranslated
            notes.append(f"line {number}: loads a module, which a container does not have: choose an image that has it")


def _without_arguments(script: _Script) -> Iterator[str]:
    """Notes on lines outside functions that use an argument of the script."""
    function = False
    for number, line in script.commands if script.interpreter.is_shell else ():
        function = (function or bool(_FUNCTION.match(line))) and not line.startswith("}")
        if not function and (used := _ARGUMENTS.search(_SINGLE_QUOTED.sub("''", line))):
            yield f"line {number}: uses {used[0]}, an argument: give the arguments after `--`, as to sbatch"


def _split(line: str, number: int, *, strict: bool) -> list[tuple[str, str]]:
    """Options of one line of #SBATCH with their values. Raises ValueError."""
    try:
        words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        found, rest = parse(words, SBATCH if strict else SCRIPT)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error
    if rest and rest[0] in ("hetjob", "packjob"):
        raise ValueError(f"line {number}: a job of several components ({rest[0]}) can't be imported: split the script")
    if rest:
        raise ValueError(f"line {number}: {rest[0]!r} is not an option of sbatch")
    return found


def gpus_asked(script: _Script, options: Sequence[str] = _GPU_OPTIONS) -> tuple[int, str]:
    """Return the number of GPUs on all nodes together, and their types with commas, or an empty text."""
    for option in options:
        if option not in script:
            continue
        parts = _gpu_parts(script, option)
        each = sum(int(words[-1]) if words[-1].isdigit() else 1 for words in parts)
        times = 1 if option == "gpus" else script.tasks if option == "gpus-per-task" else script.nodes
        if each:
            kinds = [word for words in parts for word in words if word and not word.isdigit()]
            return each * times, ",".join(dict.fromkeys(kinds))
    return 0, ""


def _gpu_parts(script: _Script, option: str) -> list[list[str]]:
    """Return the words of each part that asks for GPUs, such as `2`, `a100` or `a100:2`."""
    parts = [part.split(":") for part in filter(None, script.get(option).split(","))]
    if option == "gres":  # gpu, gpu:2, gpu:a100:2, among other resources
        return [words[1:] or ["1"] for words in parts if words[0] in _GPUS]
    return parts


def _gpu_faults(script: _Script) -> Iterator[str]:
    """Yield counts of GPUs that Slurm reads otherwise or refuses."""
    given = [option for option in _GPU_OPTIONS if option in script]
    typed = set()
    for option in given:
        for words in _gpu_parts(script, option):
            counted = words[-1].isdigit()
            if len(words) > 2 or (len(words) == 2 and not counted) or _NO_TYPE.fullmatch(words[-1]):
                yield f"{script.at(option)}: {':'.join(words)} is not a number of GPUs: write e.g. 2 or a100:2"
            typed.add(len(words) == 2 or not counted)
    if len(typed) > 1:
        yield f"{', '.join(map(script.at, given))}: ask for GPUs with and without their type"


def _type(script: _Script, gpu_type: str, gpus: int, made: Imported) -> Json:
    """The key `gpu_type`, by --gres=gpu:TYPE:N or a constraint that names one."""
    for part in filter(None, script.get("gres").split(",")):
        if part.split(":")[0] not in _GPUS and part.lower() != "none":
            made.untranslated.append(f"{script.at('gres')}: {part} has no counterpart here, only GPUs have")
    wanted = script.get("constraint").strip("\"'[]")
    if wanted and gpus and not gpu_type and _GPU.fullmatch(wanted):
        gpu_type = wanted
    elif wanted and wanted.lower() != gpu_type.lower():
        made.untranslated.append(
            f"{script.at('constraint')}: hosts have labels here: `schedulearn hosts label`; then set hosts"
        )
    if not gpu_type:
        return {}
    if "," in gpu_type:
        made.untranslated.append(f"several types of GPU ({gpu_type}): a job has GPUs of one type; set gpu_type")
        return {}
    made.remarks.append(f"gpu_type: {gpu_type}: `schedulearn hosts ls` shows the types that there are")
    return {"gpu_type": gpu_type}


def _limits(script: _Script, gpus: int, made: Imported, native: bool) -> Json:
    """Processors and memory of each host, and times. Raises ValueError."""
    found: Json = {}
    gpus_per_node = -(-gpus // script.nodes)
    cpus = script.number("cpus-per-task") * script.tasks_per_node
    cpus = cpus or script.number("cpus-per-gpu") * gpus_per_node
    if not cpus and script.tasks_per_node > 1:
        cpus = script.tasks_per_node
    if cpus := cpus or int(native):
        found["cpus"] = cpus
    for option, times in (("mem", 1), ("mem-per-cpu", max(1, cpus)), ("mem-per-gpu", max(1, gpus_per_node))):
        if script.get(option) not in ("", "0"):
            found["memory"] = _size(script, option) * times
    if (seconds := _seconds(script)) is not None:
        # Slurm counts in minutes, and begins each.
        found["max_duration"] = -(-seconds // 60) * 60 if native else seconds
    if script.get("deadline"):
        found["deadline"] = script.get("deadline")
    name, batch, before = _signal(script)
    if name == "TERM":
        found["grace_period"] = before
    elif name and not batch:
        made.untranslated.append(f"{script.at('signal')}: goes to the steps of srun only, and there are none; write B:")
    elif name and seconds is None:
        made.untranslated.append(f"{script.at('signal')}: is never sent without --time")
    return found


def _size(script: _Script, option: str) -> int:
    """Return the bytes that an option names. Raises ValueError."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,12})?)([KMGT]?)B?", script.get(option).upper())
    if match is None:
        raise ValueError(f"{script.at(option)}: it is not a size: write e.g. 16G")
    return int(float(match[1]) * _SIZES[match[2]])


def _texts(script: _Script) -> Json:
    """Return the label of --account and the key `description`, by --comment."""
    found: Json = {"labels": {"account": script.get("account")}} if script.get("account") else {}
    return {**found, "description": script.get("comment")} if script.get("comment") else found


def _when(script: _Script, made: Imported) -> Json:
    """The keys `hold` and `start_after`."""
    found: Json = {"hold": True} if "hold" in script else {}
    text = script.get("begin").strip()
    if text in ("", "now"):
        return found
    if match := re.fullmatch(r"now\+(\d{1,9})([a-z]*)", text.lower()):
        unit = match[2].removesuffix("s") or "second"
        if unit in _SPANS:
            return {**found, "start_after": f"{int(match[1]) * _SPANS[unit]}s"}
    at = _DAYTIMES.get(text.lower(), text)
    clock = re.fullmatch(r"(\d{1,2}:\d{2})(?::\d{2})?", at)
    if clock or re.match(r"\d{4}-\d{2}-\d{2}", at):
        with suppress(ValueError):
            return {**found, "start_after": parse_start(clock[1] if clock else at)}
    made.untranslated.append(f"{script.at('begin')}: set start_after, such as 2h or 2026-12-24T18:00+01:00")
    return found


def _signal(script: _Script) -> tuple[str, bool, int]:
    """Parse `[B:]NAME[@SECONDS]`: the name, whether it is for the batch shell, and the seconds before the limit."""
    text = script.get("signal")
    if not text:
        return "", False, 0
    match = re.fullmatch(r"(?:([BR]+):)?(?:SIG)?([A-Za-z0-9]+)(?:@(\d+))?", text)
    if match is None:
        raise ValueError(f"{script.at('signal')}: write e.g. B:USR1@120")
    return match[2].upper(), "B" in (match[1] or ""), int(match[3] or _SIGNAL_BEFORE_S)


def _seconds(script: _Script) -> int | None:
    """Return the time limit in seconds; None: there is none. Raises ValueError.

    Formats: `90` (minutes), `1:30` (minutes and seconds), `2:00:00`, `1-12`, `1-12:30`, `1-12:30:00`."""
    text = script.get("time")
    if not text or text.upper() in ("UNLIMITED", "INFINITE", "0"):
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, *([days] if dash else [])]) or len(parts) > 3:
        raise ValueError(f"{script.at('time')}: it is not a duration: write e.g. 2:00:00 or 1-12:00:00")
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds


def _exported(script: _Script, made: Imported, native: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables that --export names or that the script uses."""
    env: dict[str, str] = {}
    parts = [part for part in script.get("export").split(",") if part]
    if native is not None and (not parts or "ALL" in map(str.upper, parts)):
        env |= _all_of(native) if parts else _used_of(native, script)
        if env:
            more = f" and {len(env) - _SENT_SHOWN} more" if len(env) > _SENT_SHOWN else ""
            made.remarks.append(f"sends of your environment: {', '.join([*env][:_SENT_SHOWN])}{more}")
    for part in parts:
        name, equals, value = part.partition("=")
        if equals:
            env[name] = value
        elif name.upper() in ("ALL", "NONE", "NIL"):
            continue
        elif native is None:
            made.untranslated.append(f"{script.at('export')}: takes {name} of your shell: submit with --env {name}")
        elif name in native:
            env[name] = native[name]
    return env


def _all_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of your shell, without those that belong to a machine."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.isidentifier() and name.isascii() and not _OF_MACHINE.match(name) and not _OF_SHELL.match(name)
    }


def _used_of(environment: Mapping[str, str], script: _Script) -> dict[str, str]:
    """Return the variables of your shell that the script uses, or a file of the folder that it names."""
    commands = "\n".join(line for _, line in script.commands)
    used = (_SHELL_NAME if script.interpreter.is_shell else _QUOTED_NAME).findall(commands)
    for text in named_in(commands, Path(script.get("chdir") or ".")):
        used += [*_SHELL_NAME.findall(text), *_QUOTED_NAME.findall(text)]
    return {
        name: environment[name] for name in dict.fromkeys(used) if name in environment and not _OF_MACHINE.match(name)
    }


def _command(
    script: _Script,
    name: str,
    env: Mapping[str, str],
    arguments: tuple[str, ...],
    made: Imported,
    native: Mapping[str, str] | None,
) -> list[str]:
    """Return the command that sets the variables of Slurm and runs the script."""
    prelude = _prelude(script, name, env, made) if native is None else [*inside.prelude(), *_signal_line(script)]
    interpreter = script.interpreter
    if interpreter.is_shell:
        return [
            *interpreter.words,
            "-c",
            "\n".join([*prelude, script.body]),
            *([name, *arguments] if arguments else []),
        ]
    run = ['file=$(mktemp) && printf "%s\\n" "$1" >"$file" || exit', "shift"]
    start = f'exec {shlex.join(interpreter.words)} "$file" "$@"'
    return ["sh", "-c", "\n".join([*prelude, *run, start]), name, script.body, *arguments]


def _prelude(script: _Script, name: str, env: Mapping[str, str], made: Imported) -> list[str]:
    """Lines that set the variables of Slurm that the script uses, and send its signal in time."""
    known = {**_VARIABLES, "SLURM_JOB_NAME": shlex.quote(name)}
    counts = {
        "SLURM_CPUS_PER_TASK": script.number("cpus-per-task"),
        "SLURM_NTASKS": script.tasks if {"ntasks", "ntasks-per-node", "ntasks-per-gpu"} & script.options.keys() else 0,
        "SLURM_NTASKS_PER_NODE": script.number("ntasks-per-node"),
    }
    counts["SLURM_NPROCS"] = counts["SLURM_NTASKS"]
    known |= {each: str(count) for each, count in counts.items() if count}
    if script.nodes == 1:
        known |= dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME"), '"$(uname -n)"')
    of_array = {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX"}
    used: dict[str, int] = {}
    for number, line in script.commands:
        for each in _VARIABLE.findall(line):
            used.setdefault(each, number)
    for each, number in used.items():
        if each not in known and each not in env and not (each in of_array and script.get("array")):
            made.untranslated.append(f"line {number}: {each} is not set here")
    lines = [f"export {each}={known[each]}" for each in sorted(used) if each in known and each not in env]
    return [*lines, *_signal_line(script)]


def _signal_line(script: _Script) -> list[str]:
    """Return the line that sends the script its signal in time, if it wants one."""
    signal, batch, before = _signal(script)
    limit = _seconds(script)
    if signal and signal != "TERM" and batch and limit is not None:
        after = max(0, limit - before)
        # A grandchild, so that the script's own `wait` does not wait for it.
        return [f"((sleep {after}; kill -s {signal} $$) </dev/null >/dev/null 2>&1 &)"]
    return []


def _add_tasks(job: Json, script: _Script, made: Imported, native: bool) -> None:
    """Add one job for each task of an array, with its number in the environment. Raises ValueError."""
    array = script.get("array")
    if not array:
        made.jobs = [job]
        return
    spans, percent, at_once = array.partition("%")
    if percent:
        if not at_once.isdigit() or int(at_once) < 1:
            raise ValueError(f"{script.at('array')}: {at_once!r} is not a number of tasks")
        made.at_once = int(at_once)
    try:
        numbers = sorted(set(indices(spans)))
    except ValueError as error:
        raise ValueError(f"{script.at('array')}: {error}") from error
    if not 1 <= len(numbers) <= MAX_TASKS:
        raise ValueError(f"{script.at('array')}: has {len(numbers)} tasks; 1 to {MAX_TASKS} can be submitted together")
    bounds = {"COUNT": len(numbers), "MIN": min(numbers), "MAX": max(numbers)}
    labels = {"array": job["name"]}
    if native:
        # Simultaneous tasks could be limited only by a sweep, whose later jobs do not exist yet.
        if made.sweep_needed(len(numbers)):
            made.untranslated.append(
                f"{script.at('array')}: {percent}{at_once} needs a sweep: `schedulearn import slurm` makes one"
            )
        labels = {ARRAY: str(new_array())}
        bounds["STEP"] = int(spans.partition(":")[2] or 1) if "," not in spans else 1
        job = {**job, "env": {**job["env"], "SLURM_ARRAY_JOB_ID": labels[ARRAY]}}
    shared = {**job.get("env", {}), **{f"SLURM_ARRAY_TASK_{key}": str(value) for key, value in bounds.items()}}
    made.jobs = [
        {
            **job,
            "name": job["name"] if native else f"{job['name']}-{number}",
            "env": {**shared, "SLURM_ARRAY_TASK_ID": str(number)},
            "labels": {**job.get("labels", {}), **labels, **({TASK: str(number)} if native else {})},
        }
        for number in numbers
    ]
    if native:
        return
    if made.sweep is None:
        told = f"{len(numbers)} jobs with the label array={job['name']}: cancel or delete them by it"
    else:
        told = (
            f"{made.at_once} of {len(numbers)} at once, so it is a sweep: start it with `schedulearn sweep start FILE`"
        )
    made.remarks.append(f"--array: {told}")
