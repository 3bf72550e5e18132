#!/usr/bin/env bash
# Begins to make the environment that local training jobs run in, beside all else that `make run` sets up, so that the first
# job waits less for it. Nothing waits for this: what is not done when a job needs it, the service waits for or does itself.
# Only where jobs will be local processes of the usual environment, as far as can be seen from here.
# Usage: first-environment.sh PYTHON [arguments of serve]
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHON=$1
shift

runtime=${SCHEDULEARN_RUNTIME:-auto}
while [ $# -gt 0 ]; do
  case $1 in
    --runtime) runtime=${2:-} ;;
    --runtime=*) runtime=${1#*=} ;;
    --config | --config=* | -h | --help) exit 0 ;; # it may say anything
  esac
  shift
done
if [ "$runtime" = auto ] && [ -z "${DOCKER_HOST:-}" ] && [ ! -S /var/run/docker.sock ]; then runtime=process; fi
if [ "$runtime" != process ] || [ -n "${SCHEDULEARN_ENVIRONMENTS:-}" ]; then exit 0; fi
# Where packages of the system are missing, two would install them at the same time.
"$PYTHON" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || exit 0
worker_images/build-env.sh cpu >/dev/null 2>&1 &
