#!/usr/bin/env bash
# Serves, for `make run` and `make demo`, over the folder .schedulearn, which git ignores, unless the arguments, the
# environment or a file of settings may say another. A database that lies here already, as `schedulearn serve` makes it by
# itself, stays in use.
# Usage: serve.sh SCHEDULEARN [arguments of serve]
set -euo pipefail
cd "$(dirname "$0")/.."
schedulearn=$1
shift
place=(--data .schedulearn)
if [ -n "${SCHEDULEARN_DATA:-}" ] || [ -e schedulearn.db ]; then place=(); fi
for word in "$@"; do
  case $word in --data | --data=* | --config | --config=*) place=() ;; esac
done
echo # the lines that say what to open stand alone
exec "$schedulearn" serve ${place[@]+"${place[@]}"} "$@"
