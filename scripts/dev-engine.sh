#!/usr/bin/env bash
# A Docker Engine for tests and development, on a machine with root but without a running engine.
#
#   dev-engine.sh start     last line: DOCKER_HOST=unix://...   (export it)
#   dev-engine.sh stop      ends the engine that start began, and no other
#   dev-engine.sh status    exit code 0 and the DOCKER_HOST line when an engine answers, else 1
#
# An engine that answers already is used as it is, and left alone by stop. Else dockerd runs in the background with all
# that it owns below <cache>/engine/; its images survive a stop. Exit code 3: it cannot be done here, and why.
set -euo pipefail

cache=${SCHEDULEARN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedulearn}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
engine=$cache/engine
run=$engine/run
# A socket's path may have 107 characters, and containerd appends to ours.
if [ ${#run} -gt 60 ]; then run=/run/schedulearn-$(echo "$engine" | cksum | cut -d ' ' -f 1); fi
pidfile=$run/dockerd.pid
log=$engine/dockerd.log
ours=unix://$run/docker.sock

start() {
    if print_foreign; then return; fi
    [ "$(id -u)" -eq 0 ] || give_up "no Docker Engine answers, and only root can start one"
    # Two engines must not start at once, and apt does not like it either.
    mkdir -p "$engine"
    exec 9>"$engine/lock"
    flock 9
    if answers "$ours"; then
        echo "DOCKER_HOST=$ours"
        return
    fi
    if ! have_docker; then
        install_docker
        if print_foreign; then return; fi # where there is systemd, the package has started one
    fi
    mkdir -p "$run"
    end_ours # one that hangs
    # Docker chooses the storage driver by itself, overlay2 where it can; vfs needs nothing of the kernel, but space.
    launch || launch --storage-driver vfs || {
        tail -n 20 "$log" >&2
        give_up "dockerd does not start, see $log"
    }
    echo "DOCKER_HOST=$ours"
}

stop() {
    if [ ! -e "$pidfile" ]; then return; fi
    exec 9>"$engine/lock"
    flock 9
    end_ours
}

status() {
    if print_foreign; then return; fi
    if answers "$ours"; then
        echo "DOCKER_HOST=$ours"
    else
        echo "no Docker Engine answers"
        return 1
    fi
}

answers() { # docker host; empty: what the docker command would use by itself
    DOCKER_HOST=$1 timeout 20 docker version >/dev/null 2>&1
}

print_foreign() { # the user's own engine, if it answers
    answers "${DOCKER_HOST:-}" || return 1
    echo "DOCKER_HOST=${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}')}"
}

have_docker() { command -v docker >/dev/null && command -v dockerd >/dev/null && command -v iptables >/dev/null; }

install_docker() {
    command -v apt-get >/dev/null || give_up "dockerd, docker or iptables is missing, and there is no apt-get"
    export DEBIAN_FRONTEND=noninteractive
    echo "installing docker.io and iptables"
    { apt-get update && apt-get install -y --no-install-recommends docker.io iptables; } >"$engine/apt.log" 2>&1 ||
        give_up "docker.io and iptables could not be installed, see $engine/apt.log"
}

launch() { # option...
    rm -f "$pidfile"
    # Nothing of the caller's may stay open in the daemon: not its terminal, not its pipe, not our lock.
    setsid nohup dockerd --data-root "$engine/data" --exec-root "$run/exec" --pidfile "$pidfile" --host "$ours" "$@" \
        </dev/null >>"$log" 2>&1 9>&- &
    local pid=$! waited
    for ((waited = 0; waited < 60; waited++)); do
        if answers "$ours"; then return; fi
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 1
    done
    kill "$pid"
    wait "$pid" || true
    return 1
}

end_ours() {
    local pid
    pid=$(cat "$pidfile" 2>/dev/null) || return 0
    # The number may have gone to another process since.
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != dockerd ]; then return; fi
    kill "$pid"
    for _ in $(seq 30); do
        if ! kill -0 "$pid" 2>/dev/null; then return; fi
        sleep 1
    done
    kill -9 "$pid"
}

give_up() { # reason
    echo "error: $1" >&2
    exit 3
}

case ${1:-} in
    start | stop | status) "$1" ;;
    *)
        echo "usage: $0 start|stop|status" >&2
        exit 2
        ;;
esac
