#!/usr/bin/env bash
# Build the image of the probe by the Docker Engine at DOCKER_HOST. The service calls this, with a folder that it filled.
#
#   build-probe.sh IMAGE FOLDER
#
# An image of this name is taken for done: its tag names what it was made of.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

image=${1:?usage: $0 IMAGE FOLDER}
folder=${2:?usage: $0 IMAGE FOLDER}

main() {
    if ! docker image inspect "$image" >/dev/null 2>&1; then
        open_log build-probe
        need docker docker.io
        docker version >>"$log" 2>&1 ||
            die "no Docker Engine answers${DOCKER_HOST:+ at $DOCKER_HOST}: start one, or set DOCKER_HOST" 3
        lock "image-probe-$(echo "${DOCKER_HOST:-}" | cksum | cut -d ' ' -f 1)"
        have_base "$CPU_BASE"
        step 90 99 3 "putting the probe together" docker build --force-rm --build-arg "BASE=$CPU_BASE" \
            --tag "$image" "$folder"
    fi
    progress 100 "the probe's image is ready"
    echo "ready $image"
}

have_base() { # image
    if docker image inspect "$1" >/dev/null 2>&1; then return; fi
    if step 0 90 30 "pulling $1" timeout 1800 docker pull "$1"; then return; fi
    substep 0 90 "making $1 from Debian packages" "$here/base-image.sh" "$1"
}

main "$@"
exit
