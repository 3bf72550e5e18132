#!/usr/bin/env bash
# Builds the page into api/static.
# Usage: build-ui.sh VENV
set -euo pipefail
cd "$(dirname "$0")/../ui"
run=(../scripts/node.sh "../$1")
echo "installing the page's packages"
"${run[@]}" npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
echo "building the page"
"${run[@]}" npm run --silent bundle # its types are for `make lint` to check
