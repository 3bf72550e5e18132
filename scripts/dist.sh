#!/usr/bin/env bash
# Makes the source archive, and the wheel from it, as a registry takes them. Prints what they are called.
# Usage: dist.sh VENV/bin TOOLS [FOLDER]     TOOLS: folder of the packages of requirements/dist.txt
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 tools=$2 folder=${3:-dist}
mkdir -p "$folder"
rm -f "$folder"/schedulearn-*.whl "$folder"/schedulearn-*.tar.gz
# The wheel comes from the archive: one that lacks a file shows it here.
PYTHONPATH=$tools "$bin/python" -m build --no-isolation --outdir "$folder" . >"$folder/build.log" 2>&1 || {
  cat "$folder/build.log" >&2
  exit 1
}
rm "$folder/build.log"
PYTHONPATH=$tools "$bin/python" -m twine check --strict "$folder"/schedulearn-*
ls -1 "$folder"/schedulearn-*
