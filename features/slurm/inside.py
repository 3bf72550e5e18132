"""Parts of Slurm inside a job: its variables, `srun` and `scontrol show hostnames`."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

# The id in base 32 without i, l, o and u is the number; see `numbers.py`.
_NUMBER = """_s_number=0; _s_text=$SCHEDULEARN_JOB_ID
while [ -n "$_s_text" ]; do
  _s_digit=${_s_text%"${_s_text#?}"}; _s_text=${_s_text#?}
  _s_below=0123456789abcdefghjkmnpqrstvwxyz; _s_below=${_s_below%"$_s_digit"*}
  _s_number=$((_s_number * 32 + ${#_s_below}))
done"""
_VARIABLES = """export SLURM_JOB_ID=$_s_number SLURM_JOBID=$_s_number SLURM_SUBMIT_DIR=$PWD SLURM_TASK_PID=$$
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
trap "rm -rf '$SCHEDULEARN_SLURM'" EXIT
export SCHEDULEARN_SLURM PATH="$SCHEDULEARN_SLURM:$PATH"
printf '%s\\n' "$_s_srun" >"$SCHEDULEARN_SLURM/srun"; printf '%s\\n' "$_s_scontrol" >"$SCHEDULEARN_SLURM/scontrol"
chmod +x "$SCHEDULEARN_SLURM/srun" "$SCHEDULEARN_SLURM/scontrol"
unset _s_number _s_text _s_digit _s_below _s_srun _s_scontrol"""

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
_s_count=; _s_each_node=; _s_label=; _s_all=; _s_out=; _s_err=; _s_over=
while [ $# -gt 0 ]; do
  _s_given=$1
  case $_s_given in
    --) shift; break ;;
    -[nNoecDJ]) [ $# -gt 1 ] || refuse "$_s_given needs a value"; _s_value=$2; shift ;;
    -[nNoecDJ]?*) _s_value=${_s_given#-?}; _s_given=${_s_given%"$_s_value"} ;;
    --*=*) _s_value=${_s_given#*=}; _s_given=${_s_given%%=*} ;;
    --ntasks|--nodes|--output|--error|--cpus-per-task|--chdir|--export|--ntasks-per-node|--mpi|--gpu-bind|WITH_VALUE)
      [ $# -gt 1 ] || refuse "$_s_given needs a value"; _s_value=$2; shift ;;
    -*) _s_value= ;;
    *) break ;;
  esac
  shift
  case $_s_given in
    -n|--ntasks) _s_count=$_s_value ;;
    --ntasks-per-node) _s_each_node=$_s_value ;;
    -O|--overcommit) _s_over=1 ;;
    -N|--nodes) [ "${_s_value#1-}" = 1 ] || refuse "$_s_given $_s_value: the job has one host" ;;
    --mpi) [ "$_s_value" = none ] || refuse "--mpi=$_s_value: only none can be given here" ;;
    --gpu-bind) case $_s_value in none|closest) ;; *) refuse "--gpu-bind=$_s_value can't be given here" ;; esac ;;
    -l|--label) _s_label=1 ;;
    -K|--kill-on-bad-exit) [ "$_s_value" = 0 ] || _s_all=1 ;;
    -o|--output) _s_out=$_s_value ;;
    -e|--error) _s_err=$_s_value ;;
    -c|--cpus-per-task) export SLURM_CPUS_PER_TASK="$_s_value" ;;
    -D|--chdir) cd "$_s_value" || exit 1 ;;
    --export) [ "$_s_value" = ALL ] || refuse "--export=$_s_value: only ALL can be given here" ;;
    -J|FLAGS|WITH_VALUE) ;;
    *) refuse "$_s_given can't be given to srun inside a job here" ;;
  esac
done
[ $# -gt 0 ] || refuse "name a command"
_s_count=${_s_count:-${_s_each_node:-${SLURM_NTASKS:-1}}}
case $_s_count in ''|*[!0-9]*|0) refuse "--ntasks=$_s_count is not a number of tasks" ;; esac
[ "$_s_count" -le 1024 ] || refuse "--ntasks=$_s_count: a host runs at most 1024 tasks"
[ -n "$_s_over" ] || [ "$_s_count" -le "${SLURM_CPUS_ON_NODE:-1024}" ] ||
  refuse "--ntasks=$_s_count: the job has $SLURM_CPUS_ON_NODE processors"
_s_step=0; until mkdir "$SCHEDULEARN_SLURM/step.$_s_step" 2>/dev/null; do _s_step=$((_s_step + 1)); done
_s_folder=$SCHEDULEARN_SLURM/step.$_s_step
export SLURM_NTASKS="$_s_count" SLURM_NPROCS="$_s_count" SLURM_STEP_ID="$_s_step" SLURM_STEPID="$_s_step" SLURM_NODEID=0
export SLURM_STEP_NUM_TASKS="$_s_count" SLURM_STEP_NUM_NODES=1 SLURM_STEP_TASKS_PER_NODE="$_s_count"
export SLURM_STEP_NODELIST="$SLURM_JOB_NODELIST" SLURM_TASKS_PER_NODE="$_s_count"
named() { printf '%s\n' "$1" | sed "s/%[jA]/$SLURM_JOB_ID/g; s/%s/$_s_step/g; s/%t/$_s_rank/g; s/%n/0/g"; }
bind() {
  [ -n "$SLURM_GPUS_PER_TASK" ] || return 0
  _s_each=${SLURM_GPUS_PER_TASK##*:}; _s_first=$((_s_rank * _s_each)); _s_seen=$CUDA_VISIBLE_DEVICES; _s_i=0
  if [ -z "$_s_seen" ]; then
    while [ "$_s_i" -lt $((_s_first + _s_each)) ]; do _s_seen=$_s_seen$_s_i,; _s_i=$((_s_i + 1)); done
  fi
  CUDA_VISIBLE_DEVICES=$(printf '%s' "$_s_seen" | cut -d, -f $((_s_first + 1))-$((_s_first + _s_each)))
  export CUDA_VISIBLE_DEVICES
}
task() {
  export SLURM_PROCID="$_s_rank" SLURM_LOCALID="$_s_rank"
  SLURM_GTIDS=0; _s_i=1; while [ "$_s_i" -lt "$_s_count" ]; do SLURM_GTIDS=$SLURM_GTIDS,$_s_i; _s_i=$((_s_i + 1)); done
  SLURM_DISTRIBUTION=block; [ "$_s_count" -gt 1 ] || SLURM_DISTRIBUTION=cyclic
  export SLURM_GTIDS SLURM_DISTRIBUTION SLURM_TASK_PID=$$
  [ -z "$SLURM_NTASKS_PER_GPU" ] || export SLURM_NTASKS_PER_TRES="$SLURM_NTASKS_PER_GPU"
  bind
  [ -z "$_s_out" ] || exec >"$(named "$_s_out")" || exit 1
  if [ -n "$_s_err" ]; then exec 2>"$(named "$_s_err")" || exit 1; elif [ -n "$_s_out" ]; then exec 2>&1; fi
  exec "$@"
}
if [ "$_s_count" = 1 ] && [ -z "$_s_label" ]; then _s_rank=0; task "$@"; fi
trap 'kill -s TERM $(cat "$_s_folder"/pid.*) 2>/dev/null' TERM INT
run_task() {
  (task "$@") &
  echo $! >"$_s_folder/pid.$_s_rank"; wait $!; _s_code=$?
  [ $_s_code = 0 ] || [ -z "$_s_all" ] || kill -s TERM $(cat "$_s_folder"/pid.*) 2>/dev/null
  echo $_s_code >"$_s_folder/code.$_s_rank"
}
_s_rank=0
while [ "$_s_rank" -lt "$_s_count" ]; do
  if [ -n "$_s_label" ]; then { run_task "$@" 2>&1 | sed "s/^/$_s_rank: /"; } & else run_task "$@" & fi
  _s_rank=$((_s_rank + 1))
done
wait; wait
_s_most=0; _s_rank=0
while [ "$_s_rank" -lt "$_s_count" ]; do
  _s_code=$(cat "$_s_folder/code.$_s_rank" 2>/dev/null) || _s_code=143
  [ "$_s_code" -le "$_s_most" ] || _s_most=$_s_code
  _s_rank=$((_s_rank + 1))
done
exit "$_s_most"
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
    return [_NUMBER, _VARIABLES, f"_s_srun={quote(_srun())}", f"_s_scontrol={quote(_SCONTROL)}", _PROGRAMS]


def _srun() -> str:
    """Return the program `srun`."""
    return _SRUN.replace("FLAGS", "|".join(_FLAGS)).replace("WITH_VALUE", "|".join(_VALUES))
