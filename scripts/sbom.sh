#!/usr/bin/env bash
# Writes what Schedulearn is made of as CycloneDX: the wheel and the page from their lock files, the worker images from the
# packages that are in them where they are built here, else from the versions that they are built from.
# Usage: sbom.sh VENV [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(cd "$1" && pwd) out=${2:-dist/sbom}
mkdir -p "$out"
out=$(cd "$out" && pwd)
options=(--output-reproducible --short-PURLs --pyproject pyproject.toml)

"$venv/bin/cyclonedx-py" requirements requirements/server.txt "${options[@]}" --mc-type application -o "$out/wheel.cdx.json"
(cd ui && ../scripts/node.sh "$venv" npm sbom --sbom-format cyclonedx --package-lock-only --omit dev --loglevel=error) >"$out/page.cdx.json"

# shellcheck source=worker_images/versions.env
source worker_images/versions.env
running=
for flavour in $FLAVOURS; do
  image=schedulearn/horovod-$flavour
  choose_flavour "$flavour"
  if command -v docker >/dev/null && docker image inspect "$image" >/dev/null 2>&1; then
    from="the image"
    packages=$(docker run --rm --network none --entrypoint python3 "$image" -m pip list --format=freeze --disable-pip-version-check)
  else
    from="worker_images/versions.env"
    # shellcheck disable=SC2086  # words
    packages=$(printf '%s\n' horovod==$HOROVOD_VERSION $REQUIREMENTS $HOROVOD_REQUIREMENTS)
  fi
  "$venv/bin/cyclonedx-py" requirements "${options[@]:0:2}" -o "$out/horovod-$flavour.cdx.json" - <<<"$packages" &
  running="$running $!"
  echo "horovod-$flavour: from $from"
done
for process in $running; do wait "$process"; done
echo "written to $out"
