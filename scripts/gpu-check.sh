#!/usr/bin/env bash
# Everything that can only be shown on a real GPU, by one command: docs/gpu.md.
#
#   scripts/gpu-check.sh [--only NAMES] [--device cuda|cpu] [--out FOLDER]
#
# Needs a Python with PyTorch: $PYTHON, else python3, else the environment that build-env.sh made. Without a network: what
# is missing besides PyTorch (nvidia-ml-py, numpy, scikit-learn) may lie as wheels in $GPU_CHECK_WHEELS.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${SCHEDULEARN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedulearn}

has() { "$1" -c "import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))" "${@:2}" 2>/dev/null; }

python=
for candidate in ${PYTHON:+"$PYTHON"} python3 "$cache"/envs/horovod-cuda1?-*/bin/python "$cache"/envs/horovod-cpu-*/bin/python; do
    if has "$candidate" torch; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "no Python with PyTorch was found: what trains is skipped. Set PYTHON to one that has it." >&2
    python=${PYTHON:-python3}
fi

extra=
if [ -n "${GPU_CHECK_WHEELS:-}" ]; then
    extra=$(mktemp -d)
    trap 'rm -rf "$extra"' EXIT
    for wheel in "$GPU_CHECK_WHEELS"/*.whl; do "$python" -m zipfile -e "$wheel" "$extra"; done
elif ! has "$python" pynvml; then # one file in plain Python: that of the service will do
    extra=$(mktemp -d)
    trap 'rm -rf "$extra"' EXIT
    cp "$root"/.venv/lib/python3*/site-packages/pynvml.py "$extra/" 2>/dev/null ||
        echo "nvidia-ml-py is missing: pip install nvidia-ml-py, or run make setup" >&2
fi
export PYTHONPATH=$root/src:$root${extra:+:$extra}${PYTHONPATH:+:$PYTHONPATH}
cd "$root"
"$python" -m bench.gpu "$@"
