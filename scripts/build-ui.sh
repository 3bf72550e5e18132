#!/usr/bin/env bash
# Builds the page into api/static.
# Usage: build-ui.sh VENV
set -euo pipefail
cd "$(dirname "$0")/../ui"
run=(../scripts/node.sh "../$1")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { # what a step says counts only if it fails
  "${run[@]}" npm "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}
echo "installing the page's packages"
quietly ci --no-audit --no-fund --no-update-notifier --loglevel=error
echo "building the page"
quietly run --silent bundle # its types are for `make lint` to check
