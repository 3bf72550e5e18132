#!/usr/bin/env bash
# Makes the virtual environment if it is missing, and installs what a lock file names, plus this project.
# Usage: venv.sh PYTHON VENV LOCKFILE
set -euo pipefail
python=$1 venv=$2 lock=$3
cd "$(dirname "$0")/.."

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  echo "Schedulearn needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo missing)." >&2
  echo "Install one, then: make PYTHON=python3.12 ..." >&2
  exit 1
}
if [ ! -x "$venv/bin/pip" ]; then
  echo "setting up $venv"
  if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    # Debian and Ubuntu ship Python without what makes environments.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
      "$python" -m venv "$venv"
    else
      echo "'$python -m venv' does not work here: install it with 'sudo apt-get install python3-venv'" >&2
      exit 1
    fi
  fi
fi
echo "installing $lock"
pip=("$venv/bin/pip" install --quiet --disable-pip-version-check)
# Modules are compiled when they are first imported: most never are. Where Python may not write bytecode, each start would
# compile them anew: there pip does it, for all.
if [ -z "${PYTHONDONTWRITEBYTECODE:-}" ]; then pip+=(--no-compile); fi
# What builds this project comes along, at a version of ours: pip then needs no second environment for it.
"${pip[@]}" -r "$lock" -r requirements/build.txt
"${pip[@]}" --no-deps --no-build-isolation -e .
env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m compileall -q api features scheduler metrics src/schedulearn/*.py || true
