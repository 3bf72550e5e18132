# shellcheck shell=bash disable=SC2034  # variables for the scripts that source it
# Shared by the build scripts: progress lines, the log, locks, apt. Sourced, never run.
#
# The contract of every build script: stdout carries only lines `progress <0-100> <message>` (never falling, at least
# one in 10 s) and, last, `ready <path-or-image>`. Everything else goes to a log, whose tail is shown on failure.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=worker_images/versions.env
. "$here/versions.env"
cache=${SCHEDULEARN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedulearn}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
python=${PYTHON:-python3}
percent=0
spoke=0 # when progress was last shown, by bash's own clock
shared_progress= # the lock holder's last line, for those who wait for it

# Start the log. A script started by another one writes into that one's log and leaves the last word to it.
open_log() { # name
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [ -n "${SCHEDULEARN_LOG:-}" ]; then
        log=$SCHEDULEARN_LOG
        return
    fi
    mkdir -p "$cache/logs"
    find "$cache/logs" -name '*.log' -mtime +7 -delete
    log="$cache/logs/$1-$(date +%Y%m%d-%H%M%S)-$$.log"
    : >"$log"
    export SCHEDULEARN_LOG=$log
    trap 'on_exit $?' EXIT
}

on_exit() { # status
    [ "$1" -eq 0 ] || {
        echo "failed (exit status $1); the last lines of $log:"
        tail -n 20 "$log"
    } >&2
    rm -rf ${scratch:+"$scratch"}
}

die() { # message
    echo "error: $1" >>"${log:-/dev/stderr}"
    exit "${2:-1}"
}

progress() { # percent message...
    if [ "$1" -gt "$percent" ]; then percent=$1; fi
    shift
    echo "progress $percent $*"
    spoke=$SECONDS
    if [ -n "$shared_progress" ]; then echo "$percent $*" >"$shared_progress"; fi
}

# Run a command: its output goes to the log and line by line to `on_line LINE`; while it says nothing, `on_silence` is
# called. Fails as the command does.
watch() { # command...
    local line='' rest pid status
    exec 3< <(exec "$@" 2>&1 9>&-)
    pid=$!
    while true; do
        status=0
        IFS= read -r -t 8 rest <&3 || status=$?
        line+=$rest
        if [ "$status" -gt 128 ]; then # no whole line for 8 s
            on_silence
            continue
        fi
        if [ -n "$line" ]; then
            printf '%s\n' "$line" >>"$log"
            on_line "$line"
        fi
        line=''
        [ "$status" -eq 0 ] || break # end of output
    done
    exec 3<&-
    wait "$pid"
}

# One step of a script, which took `seconds` when measured: the bar moves by the clock, never past `to`.
step() { # from to seconds message command...
    local from=$1 to=$2 expected=$3 message=$4 started=$SECONDS
    shift 4
    on_line() { on_silence if_due; }
    on_silence() {
        local elapsed=$((SECONDS - started))
        if [ "${1:-}" = if_due ] && [ $((SECONDS - spoke)) -lt 5 ]; then return; fi
        if [ "$elapsed" -gt "$expected" ]; then elapsed=$expected; fi
        progress $((from + (to - from) * elapsed / expected)) "$message"
    }
    progress "$from" "$message"
    watch "$@"
}

# A step that is itself one of these scripts: its 0..100 becomes our from..to, its `ready` line lands in $ready.
substep() { # from to message command...
    local from=$1 to=$2 message=$3
    shift 3
    ready=
    on_line() {
        case $1 in
            "progress "[0-9]*)
                local rest=${1#progress }
                message=${rest#* }
                progress $((from + (to - from) * ${rest%% *} / 100)) "$message"
                ;;
            "ready "*) ready=${1#ready } ;;
        esac
    }
    on_silence() { progress "$percent" "$message"; }
    progress "$from" "$message"
    watch "$@"
}

# Only one process makes a thing; the others wait and repeat what it says. A killed process loses the lock.
lock() { # name
    mkdir -p "$cache/locks"
    exec 9>"$cache/locks/$1.lock"
    local file="$cache/locks/$1.progress" theirs
    while ! flock -w 5 9; do
        theirs=$(cat "$file" 2>/dev/null || true)
        theirs=${theirs:-0 waiting}
        progress "${theirs%% *}" "${theirs#* } (another process does)"
    done
    shared_progress=$file
    : >"$file"
}

# What `flavour` is made of, from versions.env; ends the script with its usage if there is none of that name.
use_flavour() { # name
    choose_flavour "$1" || {
        echo "usage: $0 [${FLAVOURS// /|}]" >&2
        exit 2
    }
}

# Make sure that a command exists: as root by the system's packages, else say what is missing.
need() { # command package...
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        die "$command is missing: install it first (Debian, Ubuntu: sudo apt-get install $*)" 3
    fi
    apt_install "$@"
}

apt_install() { # package...
    export DEBIAN_FRONTEND=noninteractive
    local wait=(-o DPkg::Lock::Timeout=600)
    step "$percent" "$percent" 1 "installing $*" apt-get "${wait[@]}" update
    step "$percent" "$percent" 1 "installing $*" apt-get "${wait[@]}" install -y --no-install-recommends "$@"
}

hash_of() { # file or folder...: one hash of all contents and relative names
    (cd "$here" && find "$@" -type f -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum) |
        sha256sum | cut -c1-12
}

# Asked of a Python: what a compiled wheel must fit, as in "cp311 x86_64 2.36".
describe_python='
import os, platform, sys
print("cp%d%d" % sys.version_info[:2], platform.machine(), os.confstr("CS_GNU_LIBC_VERSION").split()[1])'
requirements_hash() { echo "$REQUIREMENTS $HOROVOD_REQUIREMENTS" | sha256sum | cut -c1-8; } # of the chosen flavour
