#!/usr/bin/env bash
# Build the worker image schedulearn/horovod-<flavour> by the Docker Engine at DOCKER_HOST.
#
#   build-image.sh [cpu|cuda12|cuda13|keras|keras-cuda12|keras-cuda13|tensorflow|mxnet]
#
# cpu, cuda12 and cuda13 are PyTorch, keras Keras 3 on PyTorch. Returns at once when the image was made from the same files and
# versions. What takes long is taken from the cache when it fits the base image (same Python, C library and processor): the
# framework as the host's pip downloads it, Horovod's wheel
# as build-wheel.sh left it. What does not fit is downloaded and compiled inside, and a new Horovod wheel is kept.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_flavour "${1:-cpu}"
image=schedulearn/horovod-$FLAVOUR
builder=$image-builder
files=(versions.env common.sh build-wheel.sh horovod-cmake.sh check.py)
inputs=$FLAVOUR-$(hash_of Dockerfile "${files[@]}" examples)

main() {
    if ! is_built; then
        open_log build-image
        need docker docker.io
        docker version >>"$log" 2>&1 ||
            die "no Docker Engine answers${DOCKER_HOST:+ at $DOCKER_HOST}: start one, or set DOCKER_HOST" 3
        lock "image-$FLAVOUR"
        if ! is_built; then build; fi
    fi
    progress 100 "the image is ready"
    echo "ready $image"
}

is_built() {
    local label='{{index .Config.Labels "schedulearn.inputs"}}'
    [ "$(docker image inspect --format "$label" "$image" 2>/dev/null)" = "$inputs" ]
}

build() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/schedulearn-image.XXXXXX")
    local old
    plan
    have_base "$BASE" 0 "$after_base"
    fill_context "$scratch"
    old=$(docker image inspect --format '{{.Id}}' "$image" 2>/dev/null || true)
    # The builder stage by itself first, so that the wheel can be taken out of it; the second build finds it all done.
    docker_build "$after_download" "$after_builder" --target builder --tag "$builder"
    keep_wheel
    docker_build "$after_builder" 99 --label "schedulearn.inputs=$inputs" --tag "$image"
    # Only the name goes: its layers stay as Docker's build cache, which makes the next build short.
    docker rmi --no-prune "$builder" >>"$log" 2>&1 || true
    if [ -n "$old" ] && [ "$old" != "$(docker image inspect --format '{{.Id}}' "$image")" ]; then
        step 99 99 1 "removing the old image" docker rmi "$old" || true # still used by a container: Docker keeps it
    fi
}

plan() { # at which percent each part ends: by the seconds that it took when measured, of those parts that are to do
    local base_seconds=0 download_seconds=0 final_seconds=35 total
    wheel_seconds=1
    docker image inspect "$BASE" >/dev/null 2>&1 || base_seconds=65
    compgen -G "$cache/wheels/pip-*-$(requirements_hash)" >/dev/null || download_seconds=10
    compgen -G "$cache/wheels/horovod$HOROVOD_VERSION-*-$FRAMEWORK*" >/dev/null || wheel_seconds=$WHEEL_SECONDS
    total=$((base_seconds + download_seconds + PIP_SECONDS + wheel_seconds + 10 + final_seconds))
    after_base=$((100 * base_seconds / total))
    after_download=$((100 * (base_seconds + download_seconds) / total))
    after_builder=$((100 * (total - final_seconds) / total))
}

have_base() { # image from to
    if docker image inspect "$1" >/dev/null 2>&1; then return; fi
    if step "$2" "$3" 30 "pulling $1" timeout 1800 docker pull "$1"; then return; fi
    [ "$1" = "$CPU_BASE" ] || die "$1 is neither here nor can it be pulled"
    substep "$2" "$3" "making $1 from Debian packages" "$here/base-image.sh" "$1"
}

# The build's context: our files, and below cache/ the wheels which fit the base image.
fill_context() { # folder
    local context=$1 theirs mine house wheel
    for wheel in "${files[@]}" Dockerfile examples; do cp -r "$here/$wheel" "$context/"; done
    mkdir -p "$context/cache/wheels"
    theirs=$(docker run --rm "$BASE" python3 -c "$describe_python")
    mine=$("$python" -c "$describe_python" || true)
    echo "the base image has $theirs, this machine $mine" >>"$log"
    # A wheel that is good for an older C library is good for a newer one, not the other way round.
    if [ -z "$CUDA" ] && [ "${theirs% *}" = "${mine% *}" ] &&
        printf '%s\n' "${mine##* }" "${theirs##* }" | sort --check=quiet --version-sort; then
        house=$cache/wheels/pip-${mine%% *}-$(requirements_hash)
        if [ -d "$house" ] || download "$house"; then cp -r "$house" "$context/cache/wheels/pip"; fi
    fi
    local python_tag machine libc
    read -r python_tag machine libc <<<"$theirs"
    for wheel in "$cache/wheels/horovod$HOROVOD_VERSION-$python_tag-$FRAMEWORK$FRAMEWORK_VERSION"*"-glibc$libc-$machine"; do
        if [ -d "$wheel" ]; then cp -r "$wheel" "$context/cache/wheels/"; fi
    done
}

download() { # folder: all that the image installs, as this machine's pip finds it
    local partial
    # Bash checks nothing by itself in a function that stands in a condition.
    mkdir -p "$cache/wheels" || die "$cache/wheels cannot be written"
    partial=$(mktemp -d "$cache/wheels/.partial.XXXXXX") || die "$cache/wheels cannot be written"
    # shellcheck disable=SC2086  # lists of words
    if step "$after_base" "$after_download" 10 "downloading $FRAMEWORK_NAME $FRAMEWORK_VERSION" \
        "$python" -m pip download --only-binary :all: --dest "$partial" $REQUIREMENTS $HOROVOD_REQUIREMENTS; then
        chmod 755 "$partial" && mv -T "$partial" "$1"
    else
        rm -rf "$partial" # the image then tries by itself
        return 1
    fi
}

docker_build() { # from to option...
    local from=$1 to=$2 phase_from=$1 phase_to=$1 expected=1 began=$SECONDS message="sending the files to Docker"
    local target=image
    shift 2
    if [ "$1" = --target ]; then target=$2; fi
    on_line() {
        # Both builders repeat the instruction that they are at; the lines of a compile inside pass through.
        case $1 in
            *"progress "[0-9]*)
                local rest=${1##*progress }
                message=${rest#* } expected=0 # it tells us where it is: the clock need not guess
                progress $((phase_from + (phase_to - phase_from) * ${rest%% *} / 100)) "$message"
                ;;
            *"RUN . ./versions.env"*) phase 0 "$PIP_SECONDS" "installing $FRAMEWORK_NAME $FRAMEWORK_VERSION" ;;
            *"RUN PYTHON=/opt/venv"*) phase "$PIP_SECONDS" "$wheel_seconds" "Horovod's wheel" ;;
            *"RUN wheel="*)
                phase $((PIP_SECONDS + wheel_seconds)) 10 "installing Horovod and trying it"
                ;;
            *"COPY --from=builder"*) began=$SECONDS expected=30 phase_to=$to message="putting the image together" ;;
        esac
    }
    phase() { # when it begins and how long it takes, in seconds of the builder stage; message
        if [ "$target" != builder ]; then return; fi # those lines come again, from Docker's cache
        local total=$((PIP_SECONDS + wheel_seconds + 10))
        phase_from=$((from + (to - from) * $1 / total)) phase_to=$((from + (to - from) * ($1 + $2) / total))
        expected=$2 message=$3 began=$SECONDS
        progress "$phase_from" "$message"
    }
    on_silence() {
        local elapsed=$((SECONDS - began))
        if [ "$expected" -eq 0 ]; then
            progress "$percent" "$message"
            return
        fi
        if [ "$elapsed" -gt "$expected" ]; then elapsed=$expected; fi
        progress $((phase_from + (phase_to - phase_from) * elapsed / expected)) "$message"
    }
    progress "$from" "$message"
    local arguments=(--network host --force-rm --build-arg "BASE=$BASE")
    arguments+=(--build-arg "FLAVOUR=$FLAVOUR" --build-arg "SYSTEM_PACKAGES=$SYSTEM_PACKAGES")
    local name
    for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL SCHEDULEARN_HOROVOD_WHEELS {HTTP,HTTPS,NO}_PROXY {http,https,no}_proxy; do
        if [ -n "${!name:-}" ]; then arguments+=(--build-arg "$name"); fi
    done
    BUILDKIT_PROGRESS=plain watch docker build "${arguments[@]}" "$@" "$scratch"
}

keep_wheel() { # compiled in the image: copy it into the cache, under the key that the image gave it
    local key container
    for key in $(docker run --rm "$builder" sh -c 'cd /cache/wheels && ls -d horovod*'); do
        if [ -d "$cache/wheels/$key" ]; then continue; fi
        mkdir -p "$cache/wheels"
        container=$(docker create "$builder" true)
        docker cp "$container:/cache/wheels/$key" "$cache/wheels/.partial-$key" >>"$log" 2>&1
        docker rm "$container" >>"$log"
        mv -T "$cache/wheels/.partial-$key" "$cache/wheels/$key" || true # another one was faster
    done
}

main "$@"
exit
