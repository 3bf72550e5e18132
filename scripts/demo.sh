#!/usr/bin/env bash
# Serves, and submits example jobs once the service answers, so that there is training to watch at once.
# Usage: demo.sh SCHEDULEARN [arguments of serve]
set -euo pipefail
cd "$(dirname "$0")/.."
schedulearn=$1
shift
submit_examples() {
  # It trains at once, also on a fresh machine: nothing has to be built for it.
  "$schedulearn" run -d --code scripts/demo --name "a circle" --image python:3.11-slim -- python3 train.py >/dev/null
  for epochs in 5 20 40; do
    "$schedulearn" submit -d --name "digits, $epochs epochs" --type Pytorch --image schedulearn/horovod-cpu --gpus 2 \
      -- python examples/digits/train.py --epochs "$epochs" >/dev/null
  done
  "$schedulearn" submit -d --name "digits on all GPUs" --type Pytorch --image schedulearn/horovod-cpu --gpus 4 \
    -- python examples/digits/train.py >/dev/null
  echo "Submitted five example jobs. The first trains at once; the others wait while schedulearn/horovod-cpu is built at its first use: some minutes, shown on the page."
}

pass_on() { # what the service says, which tells where it is
  local line
  trap '' INT # Ctrl-C is for the service, which may have a last word
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
      "Schedulearn is ready: "*)
        line=${line#*: }
        export SCHEDULEARN_URL=${line%% *}
        submit_examples &
        ;;
    esac
  done
}
exec scripts/serve.sh "$schedulearn" "$@" > >(pass_on)
