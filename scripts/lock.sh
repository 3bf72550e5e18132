#!/usr/bin/env bash
# Resolves the dependencies anew. The lock files name versions, never download addresses.
# Usage: lock.sh VENV/bin
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
"$bin/pip" install --quiet pip-tools
options=(--quiet --upgrade --strip-extras --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options)
"$bin/pip-compile" "${options[@]}" --extra server -o requirements/server.txt pyproject.toml
"$bin/pip-compile" "${options[@]}" --extra server -c requirements/server.txt -o requirements/dev.txt pyproject.toml requirements/dev.in
