#!/usr/bin/env bash
# Compile Horovod for PyTorch and Gloo (and NCCL, where PyTorch has CUDA and nvcc is there) once, and keep the wheel.
#
#   PYTHON=/path/to/venv/bin/python build-wheel.sh
#
# $PYTHON must have torch: the wheel fits exactly that torch, Python and C library, and these make up its name in the
# cache, <cache>/wheels/<key>/. About 6 minutes on 2 cores; later calls return at once. Interrupted, it carries on where
# it was: the object files stay in <cache>/build/<key>/ until the wheel is made.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

describe=$(
    cat <<'PY'
import importlib.metadata, os, platform, shutil, sys
version = importlib.metadata.version("torch")  # not `import torch`, which takes seconds
build = version.partition("+")[2] or "plain"
cuda = build.startswith("cu") or build == "plain" and importlib.util.find_spec("nvidia.nccl")
ops = "nccl" if cuda and shutil.which("nvcc") else "gloo"
tag = "cp%d%d" % sys.version_info[:2]
print(f"{tag}-torch{version.replace('+', '.')}-{ops}-glibc{os.confstr('CS_GNU_LIBC_VERSION').split()[1]}-{platform.machine()}")
PY
)
key=horovod$HOROVOD_VERSION-$("$python" -c "$describe") || {
    echo "error: torch is not installed for $python: set PYTHON to an interpreter that has it" >&2
    exit 1
}
wheels=$cache/wheels/$key
find_wheel() { find "$wheels" -name 'horovod-*.whl' 2>/dev/null | head -n 1; }

compile() {
    local build=$1
    export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
    export HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1
    export HOROVOD_CMAKE=$here/horovod-cmake.sh
    case $key in *-nccl-*) export HOROVOD_GPU_OPERATIONS=NCCL ;; esac
    MAKEFLAGS=-j$(nproc)
    export MAKEFLAGS
    line_message="compiling Horovod"
    on_line() { # make says [ 42%]; the compile is 10..95 of the whole
        [[ $1 =~ ^\ *\[\ *([0-9]+)%\] ]] || return 0
        line_message="compiling Horovod (${BASH_REMATCH[1]} % of its files)"
        progress $((10 + BASH_REMATCH[1] * 85 / 100)) "$line_message"
    }
    progress 10 "$line_message"
    # setup.py itself, not `pip wheel`: pip would build in a fresh folder each time and forget the object files.
    (cd "$build/src" && watch "$build/venv/bin/python" setup.py bdist_wheel --dist-dir "$build/dist")
}

prepare() { # a private environment for the build tools, which sees the torch of $PYTHON, and the unpacked source
    local build=$1 venv=$1/venv
    if [ ! -e "$build/prepared" ]; then
        rm -rf "$build"
        mkdir -p "$build/src"
        step 2 "making a build environment" "$python" -m venv "$venv"
        "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
        # shellcheck disable=SC2086  # a list of words
        step 3 "installing build tools" "$venv/bin/pip" install --ignore-installed $BUILD_REQUIREMENTS
        step 7 "fetching Horovod's source" "$venv/bin/pip" download --dest "$build" --no-deps \
            --no-build-isolation --no-binary horovod --no-cache-dir "horovod==$HOROVOD_VERSION"
        tar -xzf "$build/horovod-$HOROVOD_VERSION.tar.gz" -C "$build/src" --strip-components 1
        touch "$build/prepared"
    fi
    local found
    found=$(cmake --version 2>/dev/null | sed -n 's/.*version \([0-9]*\.[0-9]*\).*/\1/p' || true)
    case $found in
        3.1[89] | 3.[2-9]?) SCHEDULEARN_CMAKE=cmake ;;
        *)
            step 9 "installing cmake" "$venv/bin/pip" install "$CMAKE_REQUIREMENT"
            SCHEDULEARN_CMAKE=$venv/bin/cmake
            ;;
    esac
    export SCHEDULEARN_CMAKE
}

main() {
    if [ -n "$(find_wheel)" ]; then
        progress 100 "Horovod's wheel is there"
        echo "ready $(find_wheel)"
        return
    fi
    open_log build-wheel
    lock "wheel-$key"
    if [ -z "$(find_wheel)" ]; then
        local build=$cache/build/$key dist
        progress 0 "looking for compilers"
        need g++ g++
        need make make
        prepare "$build"
        if ! compile "$build"; then
            # What an interrupted build left may be broken: once more, from nothing.
            progress 10 "compiling again from scratch"
            rm -rf "$build/src/build" "$build/dist"
            compile "$build"
        fi
        progress 96 "packing the wheel"
        dist=$build/packed
        rm -rf "$dist" "$build/unpacked"
        "$build/venv/bin/wheel" unpack --dest "$build/unpacked" "$build"/dist/horovod-*.whl >>"$log" 2>&1
        find "$build/unpacked" -name '*.so' -exec strip -g {} +
        mkdir "$dist"
        "$build/venv/bin/wheel" pack --dest-dir "$dist" "$build"/unpacked/horovod-* >>"$log" 2>&1
        mkdir -p "$cache/wheels"
        rm -rf "$wheels"
        mv "$dist" "$wheels" # a rename: a wheel in the cache is always whole
        rm -rf "$build"
    fi
    progress 100 "Horovod's wheel is there"
    echo "ready $(find_wheel)"
}
main "$@"
