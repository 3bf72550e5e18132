"""Parts of Slurm inside a job: its variables, `srun` and `scontrol show hostnames`."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

# The id in base 32 without i, l, o and u is the number; see `numbers.py`.
_NUMBER = """number=0; text=$SCHEDULEARN_JOB_ID
while [ -n "$text" ]; do
  digit=${text%"${text#?}"}; text=${text#?}; below=0123456789abcdefghjkmnpqrstvwxyz; below=${below%"$digit"*}
  number=$((number * 32 + ${#below}))
done"""
_VARIABLES = """export SLURM_JOB_ID=$number SLURM_JOBID=$number SLURM_SUBMIT_DIR=$PWD SLURM_TASK_PID=$$
SLURMD_NODENAME=$(uname -n); SLURM_SUBMIT_HOST=${SLURM_SUBMIT_HOST:-$SLURMD_NODENAME}
SLURM_JOB_NODELIST=$SLURMD_NODENAME; SLURM_NODELIST=$SLURMD_NODENAME
SLURM_JOB_UID=$(id -u); SLURM_JOB_GID=$(id -g); SLURM_JOB_USER=${SLURM_JOB_USER:-$SLURM_JOB_UID}
export SLURMD_NODENAME SLURM_SUBMIT_HOST SLURM_JOB_NODELIST SLURM_NODELIST SLURM_JOB_UID SLURM_JOB_GID SLURM_JOB_USER
[ "${SCHEDULEARN_RESTARTS:-0}" = 0 ] || export SLURM_RESTART_COUNT=$SCHEDULEARN_RESTARTS
if [ "${SCHEDULEARN_NUM_NODES:-1}" -gt 1 ]; then
  echo "schedulearn: the job got GPUs of several hosts, where a script of Slurm can't run: ask for fewer GPUs" >&2
  exit 1
fi"""
_PROGRAMS = """SCHEDULEARN_SLURM=$(mktemp -d) || exit 1
export SCHEDULEARN_SLURM PATH="$SCHEDULEARN_SLURM:$PATH"
printf '%s\\n' "$srun" >"$SCHEDULEARN_SLURM/srun"; printf '%s\\n' "$scontrol" >"$SCHEDULEARN_SLURM/scontrol"
chmod +x "$SCHEDULEARN_SLURM/srun" "$SCHEDULEARN_SLURM/scontrol"; unset number text digit below srun scontrol"""

_FLAGS = (
    "-u", "--unbuffered", "-Q", "--quiet", "-v", "--verbose", "--overlap", "--exact", "--exclusive",
    "-X", "--disable-status", "-k", "--no-kill", "-s", "--oversubscribe",
)  # fmt: skip
"""Options of srun in a job that need nothing done."""
_VALUES = ("--cpu-bind", "--cpu_bind", "--mem-bind", "--distribution", "--hint", "--job-name")
"""The same, with a value."""
_ONLY = {
    "--mpi": ("none",),
    "--gpu-bind": ("none", "closest"),
    "--export": ("ALL",),
    "--nodes": ("1", "1-1"),
    "-N": ("1",),
}
"""Options with the values that they may have."""
_USED = ("-n", "--ntasks", "--ntasks-per-node", "-o", "--output", "-e", "--error", "-c", "--cpus-per-task", "-D",
         "--chdir", "-J")  # fmt: skip
_USED_FLAGS = ("-l", "--label", "-K", "--kill-on-bad-exit", "-O", "--overcommit")


def step_fault(words: Sequence[str]) -> str:
    """Return why `srun WORDS` can't run in a job, as far as the text shows; empty: it can."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0).rstrip("\"'")
        long = word.startswith("--")
        name, equals, value = word.partition("=") if long else (word[:2], word[2:], word[2:])
        if name in _FLAGS or name in _USED_FLAGS:
            continue
        if name not in (*_VALUES, *_ONLY, *_USED):
            return f"{name} can't be given inside a job here"
        if not equals:
            value = rest.pop(0) if rest else ""
        if name in _ONLY and "$" not in value and value.rstrip("\"'") not in _ONLY[name]:
            return f"{name} {value}: only {' or '.join(_ONLY[name])} can be given here"
    return ""


_SRUN = r"""#!/bin/sh
# Run a command once for each task of the job, on this host.
refuse() { echo "srun: error: $1" >&2; exit 1; }
count=; each_node=; label=; all=; out=; err=; over=
while [ $# -gt 0 ]; do
  given=$1
  case $given in
    --) shift; break ;;
    -[nNoecDJ]) [ $# -gt 1 ] || refuse "$given needs a value"; value=$2; shift ;;
    -[nNoecDJ]?*) value=${given#-?}; given=${given%"$value"} ;;
    --*=*) value=${given#*=}; given=${given%%=*} ;;
    --ntasks|--nodes|--output|--error|--cpus-per-task|--chdir|--export|--ntasks-per-node|--mpi|--gpu-bind|WITH_VALUE)
      [ $# -gt 1 ] || refuse "$given needs a value"; value=$2; shift ;;
    -*) value= ;;
    *) break ;;
  esac
  shift
  case $given in
    -n|--ntasks) count=$value ;;
    --ntasks-per-node) each_node=$value ;;
    -O|--overcommit) over=1 ;;
    -N|--nodes) [ "${value#1-}" = 1 ] || refuse "$given $value: the job has one host" ;;
    --mpi) [ "$value" = none ] || refuse "--mpi=$value: only none can be given here" ;;
    --gpu-bind) [ "$value" = none ] || [ "$value" = closest ] || refuse "--gpu-bind=$value can't be given here" ;;
    -l|--label) label=1 ;;
    -K|--kill-on-bad-exit) [ "$value" = 0 ] || all=1 ;;
    -o|--output) out=$value ;;
    -e|--error) err=$value ;;
    -c|--cpus-per-task) export SLURM_CPUS_PER_TASK="$value" ;;
    -D|--chdir) cd "$value" || exit 1 ;;
    --export) [ "$value" = ALL ] || refuse "--export=$value: only ALL can be given here" ;;
    -J|FLAGS|WITH_VALUE) ;;
    *) refuse "$given can't be given to srun inside a job here" ;;
  esac
done
[ $# -gt 0 ] || refuse "name a command"
count=${count:-${each_node:-${SLURM_NTASKS:-1}}}
case $count in ''|*[!0-9]*|0) refuse "--ntasks=$count is not a number of tasks" ;; esac
[ "$count" -le 1024 ] || refuse "--ntasks=$count: a host runs at most 1024 tasks"
[ -n "$over" ] || [ "$count" -le "${SLURM_CPUS_ON_NODE:-1024}" ] ||
  refuse "--ntasks=$count: the job has $SLURM_CPUS_ON_NODE processors"
step=0; until mkdir "$SCHEDULEARN_SLURM/step.$step" 2>/dev/null; do step=$((step + 1)); done
folder=$SCHEDULEARN_SLURM/step.$step
export SLURM_NTASKS="$count" SLURM_NPROCS="$count" SLURM_STEP_ID="$step" SLURM_STEPID="$step" SLURM_NODEID=0
export SLURM_STEP_NUM_TASKS="$count" SLURM_STEP_NUM_NODES=1 SLURM_STEP_TASKS_PER_NODE="$count"
export SLURM_STEP_NODELIST="$SLURM_JOB_NODELIST" SLURM_TASKS_PER_NODE="$count"
named() { printf '%s\n' "$1" | sed "s/%[jA]/$SLURM_JOB_ID/g; s/%s/$step/g; s/%t/$rank/g; s/%n/0/g"; }
bind() {
  [ -n "$SLURM_GPUS_PER_TASK" ] || return 0
  each=${SLURM_GPUS_PER_TASK##*:}; first=$((rank * each)); seen=$CUDA_VISIBLE_DEVICES
  [ -n "$seen" ] || seen=$(i=0; while [ $i -lt $(((rank + 1) * each)) ]; do printf '%s,' $i; i=$((i + 1)); done)
  CUDA_VISIBLE_DEVICES=$(printf '%s' "$seen" | cut -d, -f $((first + 1))-$((first + each))); export CUDA_VISIBLE_DEVICES
}
task() {
  export SLURM_PROCID="$rank" SLURM_LOCALID="$rank"
  SLURM_GTIDS=0; i=1; while [ "$i" -lt "$count" ]; do SLURM_GTIDS=$SLURM_GTIDS,$i; i=$((i + 1)); done
  SLURM_DISTRIBUTION=block; [ "$count" -gt 1 ] || SLURM_DISTRIBUTION=cyclic
  export SLURM_GTIDS SLURM_DISTRIBUTION SLURM_TASK_PID=$$
  [ -z "$SLURM_NTASKS_PER_GPU" ] || export SLURM_NTASKS_PER_TRES="$SLURM_NTASKS_PER_GPU"
  bind
  [ -z "$out" ] || exec >"$(named "$out")" || exit 1
  if [ -n "$err" ]; then exec 2>"$(named "$err")" || exit 1; elif [ -n "$out" ]; then exec 2>&1; fi
  exec "$@"
}
if [ "$count" = 1 ] && [ -z "$label" ]; then rank=0; task "$@"; fi
trap 'kill -s TERM $(cat "$folder"/pid.*) 2>/dev/null' TERM INT
run_task() {
  (task "$@") &
  echo $! >"$folder/pid.$rank"; wait $!; code=$?
  [ $code = 0 ] || [ -z "$all" ] || kill -s TERM $(cat "$folder"/pid.*) 2>/dev/null
  echo $code >"$folder/code.$rank"
}
rank=0
while [ "$rank" -lt "$count" ]; do
  if [ -n "$label" ]; then { run_task "$@" 2>&1 | sed "s/^/$rank: /"; } & else run_task "$@" & fi
  rank=$((rank + 1))
done
wait; wait
most=0; rank=0
while [ "$rank" -lt "$count" ]; do
  code=$(cat "$folder/code.$rank" 2>/dev/null) || code=143
  [ "$code" -le "$most" ] || most=$code
  rank=$((rank + 1))
done
exit "$most"
"""
_SCONTROL = r"""#!/bin/sh
# Expand a list of hosts, one a line: the job has one host.
if [ "$1 $2" != "show hostnames" ] && [ "$1 $2" != "show hostname" ]; then
  echo "scontrol: error: inside a job there is only \`scontrol show hostnames\` here" >&2; exit 1
fi
printf '%s\n' "${3:-$SLURM_JOB_NODELIST}" | tr , '\n'
"""


def prelude() -> list[str]:
    """Return shell lines that set the variables known only at the start, and put `srun` and `scontrol` on PATH."""
    return [_NUMBER, _VARIABLES, f"srun={quote(_srun())}", f"scontrol={quote(_SCONTROL)}", _PROGRAMS]


def _srun() -> str:
    """Return the program `srun`."""
    return _SRUN.replace("FLAGS", "|".join(_FLAGS)).replace("WITH_VALUE", "|".join(_VALUES))
