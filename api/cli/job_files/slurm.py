"""A batch script of Slurm as a job, and what of it has no counterpart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from schedulearn.api.client.client import Json

MOST_TASKS = 10_000
"""Of an array: as many jobs as one batch holds."""
_SHORT = {
    "J": "job-name", "t": "time", "G": "gpus", "c": "cpus-per-task", "N": "nodes", "n": "ntasks", "a": "array",
    "d": "dependency", "p": "partition", "A": "account", "o": "output", "e": "error", "D": "chdir", "w": "nodelist",
    "x": "exclude", "q": "qos", "C": "constraint", "H": "hold", "i": "input", "s": "oversubscribe", "Q": "quiet",
    "b": "begin",
}  # fmt: skip
_FLAGS = {"hold", "requeue", "no-requeue", "exclusive", "quiet", "oversubscribe", "verbose"}
_USED = {"job-name", "time", "gpus", "gres", "gpus-per-node", "gpus-per-task", "cpus-per-task", "nodes", "ntasks",
         "ntasks-per-node", "mem", "mem-per-cpu", "mem-per-gpu", "array", "account", "export", "container-image",
         "deadline", "signal", "no-requeue", "quiet", "comment"}  # fmt: skip
_ELSEWHERE = {
    "output": "the log is kept: `schedulearn logs`",
    "error": "the log is kept: `schedulearn logs`",
    "mail-type": "add a webhook: `schedulearn webhooks add`",
    "mail-user": "add a webhook: `schedulearn webhooks add`",
    "partition": "there are no partitions; the service chooses hosts",
    "qos": "set the key priority, 0 to 100",
    "dependency": "submit it after `schedulearn wait` of the other job",
    "chdir": "send the folder with the job: `schedulearn submit --code FOLDER`",
    "requeue": "jobs that lose their host are always started again; max_restarts is for failures of the command",
    "nodelist": "the service chooses hosts",
    "exclude": "the service chooses hosts",
    "constraint": "the service chooses hosts",
    "hold": "submit it once it may start",
    "begin": "submit it once it may start",
    "exclusive": "its GPUs are its own anyway; set cpus and memory",
}
_VARIABLES = {
    "SLURM_JOB_ID": "$SCHEDULEARN_JOB_ID",
    "SLURM_JOBID": "$SCHEDULEARN_JOB_ID",
    "SLURM_GPUS": "$SCHEDULEARN_NUM_GPUS",
    "SLURM_GPUS_ON_NODE": "$SCHEDULEARN_NUM_GPUS",
    "SLURM_SUBMIT_DIR": "$PWD",
    "SLURM_RESTART_COUNT": "$SCHEDULEARN_RESTARTS",
}
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "": 1 << 20}


@dataclass
class Imported:
    """`jobs`: one, or one for each task of an array. `notes`: what was not understood, and what to do instead."""

    jobs: list[Json]
    notes: list[str] = field(default_factory=list)


def from_sbatch(text: str, name: str, image: str | None) -> Imported:
    """The jobs that `sbatch` would make of a script. `name`: of the file; `image`: to run it in, if the script names
    none. Raises ValueError."""
    options, body, notes = _read(text)
    image = options.get("container-image", (0, ""))[1] or image
    if not image:
        raise ValueError("Slurm's scripts run on the host, jobs run in an image: name one with --image")
    notes += [
        f"line {line}: --{option}: {_ELSEWHERE.get(option, 'has no counterpart here, and is left out')}"
        for option, (line, _) in options.items()
        if option not in _USED
    ]
    given = {option: value for option, (_, value) in options.items()}
    gpus = _gpus(given, notes)
    env = _exported(given, notes)
    job: Json = {
        "name": given.get("job-name") or name,
        "type": "Slurm",
        "container_image": image,
        "command": shlex.join(["bash", "-c", _script(body, given, env, notes)]),
        "required_gpus": gpus,
        "launcher": "none",
        **_limits(given, gpus),
    }
    if env:
        job["env"] = env
    if given.get("account"):
        job["labels"] = {"account": given["account"]}
    return Imported(_tasks(job, given.get("array", ""), notes), notes)


def _read(text: str) -> tuple[dict[str, tuple[int, str]], str, list[str]]:
    """Option -> (line, value), the script without its options, and what could not be read."""
    options: dict[str, tuple[int, str]] = {}
    notes: list[str] = []
    body: list[str] = []
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH") and not begun:
            try:
                words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            for option, value in _split(words, number):
                options[option] = (number, value)
            continue
        if line.startswith("#SBATCH"):
            notes.append(f"line {number}: comes after the first command, where sbatch ignores it as well")
        begun = begun or bool(line.strip() and not line.startswith("#"))
        if not (number == 1 and line.startswith("#!")):
            body.append(line)
        if re.match(r"\s*srun\b", line):
            notes.append(f"line {number}: calls srun, which a container has not: write the command alone")
        if re.match(r"\s*(module|ml)\s", line):
            notes.append(f"line {number}: loads a module, which a container has not: choose an image that has it")
    return options, "\n".join(body).strip(), notes


def _split(words: list[str], line: int) -> list[tuple[str, str]]:
    found = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            option, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            option, value = _SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        else:
            raise ValueError(f"line {line}: {word!r} is no option of sbatch")
        if not equals and option not in _FLAGS and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        found.append((option, value))
    return found


def _number(given: Mapping[str, str], option: str, default: int = 0) -> int:
    """Of `4`, or the least of `2-4`."""
    text = given.get(option, "")
    match = re.match(r"(\d+)", text)
    if text and match is None:
        raise ValueError(f"--{option}: {text!r} is no number")
    return int(match[1]) if match else default


def _gpus(given: Mapping[str, str], notes: list[str]) -> int:
    nodes, tasks = _number(given, "nodes", 1), _number(given, "ntasks", 1)
    found = 0
    for option, times in (("gpus", 1), ("gres", nodes), ("gpus-per-node", nodes), ("gpus-per-task", tasks)):
        for part in given.get(option, "").split(","):
            words = part.split(":")
            if option == "gres" and words[0] != "gpu":
                if part:
                    notes.append(f"--gres={part}: only GPUs are known")
                continue
            words = words[1:] if option == "gres" else words
            if len(words) > 1 and words[0]:
                notes.append(f"--{option}: the type of GPU ({words[0]}) can't be asked for")
            if words and words[-1].isdigit():
                found += int(words[-1]) * times
            elif option == "gres":
                found += times
        if found:
            break
    if nodes > 1:
        notes.append(f"--nodes={nodes}: the service chooses hosts; on several, the script runs once on each")
    return found


def _limits(given: Mapping[str, str], gpus: int) -> Json:
    tasks = _number(given, "ntasks", 1)
    found: Json = {}
    cpus = _number(given, "cpus-per-task", 0) * tasks or (tasks if tasks > 1 else 0)
    if cpus:
        found["cpus"] = cpus
    for option, times in (("mem", 1), ("mem-per-cpu", max(1, cpus)), ("mem-per-gpu", max(1, gpus))):
        if given.get(option, "0") != "0":
            match = re.fullmatch(r"(\d+)([KMGT]?)B?", given[option].upper())
            if match is None:
                raise ValueError(f"--{option}: {given[option]!r} is no size: write e.g. 16G")
            found["memory"] = int(match[1]) * _SIZES[match[2]] * times
    if (seconds := _seconds(given.get("time", ""))) is not None:
        found["max_duration"] = seconds
    if given.get("deadline"):
        found["deadline"] = given["deadline"]
    if match := re.search(r"@(\d+)$", given.get("signal", "")):
        found["grace_period"] = int(match[1])
    return found


def _seconds(text: str) -> int | None:
    """Of `90` (minutes), `1:30` (minutes and seconds), `2:00:00`, `1-12`, `1-12:30`, `1-12:30:00`."""
    if not text or text.upper() in ("UNLIMITED", "INFINITE", "0"):
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, *([days] if dash else [])]) or len(parts) > 3:
        raise ValueError(f"--time: {text!r} is no length of time: write e.g. 2:00:00 or 1-12:00:00")
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds


def _exported(given: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for part in filter(None, given.get("export", "").split(",")):
        name, equals, value = part.partition("=")
        if equals:
            env[name] = value
        elif name not in ("ALL", "NONE", "NIL"):
            notes.append(f"--export={name}: takes the value of your shell: submit with --env {name}")
    return env


def _script(body: str, given: Mapping[str, str], env: Mapping[str, str], notes: list[str]) -> str:
    """The script, after the variables of Slurm that it uses."""
    if not body:
        raise ValueError("the script has no command")
    known = {**_VARIABLES, "SLURM_JOB_NAME": shlex.quote(given.get("job-name", ""))}
    known["SLURM_CPUS_PER_TASK"] = given.get("cpus-per-task", "1")
    known["SLURM_NTASKS"] = given.get("ntasks", "1")
    used = sorted(set(re.findall(r"\bSLURM_\w+", body)))
    of_array = {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"} if given.get("array") else set()
    notes += [
        f"{name}: is not set here" for name in used if name not in known and name not in of_array and name not in env
    ]
    return "\n".join([*(f"export {name}={known[name]}" for name in used if name in known), body])


def _tasks(job: Json, array: str, notes: list[str]) -> list[Json]:
    """One job a task; the number of each is in its environment."""
    if not array:
        return [job]
    spans, percent, most = array.partition("%")
    if percent:
        notes.append(f"--array=...%{most}: runs more at once if there are GPUs: `schedulearn sweep` has max_parallel")
    numbers: list[int] = []
    for span in spans.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", span)
        if match is None or int(match[3] or 1) < 1:
            raise ValueError(f"--array: {span!r} is none: write e.g. 0-9, 1,3,5 or 0-100:10")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first > MOST_TASKS * int(match[3] or 1):
            raise ValueError(f"--array: has more than {MOST_TASKS} tasks")
        numbers += range(first, last + 1, int(match[3] or 1))
    if not 1 <= len(numbers) <= MOST_TASKS:
        raise ValueError(f"--array: has {len(numbers)} tasks; 1 to {MOST_TASKS} can be submitted together")
    notes.append(f"--array: {len(numbers)} jobs with the label array={job['name']}: cancel or delete them by it")
    shared = {**job.get("env", {}), "SLURM_ARRAY_TASK_COUNT": str(len(numbers))}
    return [
        {
            **job,
            "name": f"{job['name']}-{number}",
            "env": {**shared, "SLURM_ARRAY_TASK_ID": str(number)},
            "labels": {**job.get("labels", {}), "array": job["name"]},
        }
        for number in numbers
    ]
