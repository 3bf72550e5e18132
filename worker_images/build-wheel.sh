#!/usr/bin/env bash
# Compile Horovod for one framework and Gloo once, and keep the wheel. Flavours with CUDA get NCCL too: the CUDA compiler
# comes as packages of pip, of the CUDA version that the framework was made with, and no GPU is needed.
#
#   PYTHON=/path/to/venv/bin/python build-wheel.sh [flavour]
#
# $PYTHON must have the framework: the wheel fits exactly that version of it, of Python and of the C library, and these
# make up its name in the cache, <cache>/wheels/<key>/. 1 to 5 minutes on 2 cores; later calls return at once. Interrupted,
# it carries on where it was: the object files stay in <cache>/build/<key>/ until the wheel is made.
# Nothing is compiled where $SCHEDULEARN_HOROVOD_WHEELS names a wheel for <key>: words such as
# https://wheels.example.org/<key>/horovod-....whl#sha256=..., which pip fetches and checks.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_flavour "${1:-cpu}"

describe=$(
    cat <<'PY'
import importlib.metadata, importlib.util, os, platform, runpy, shutil, sys
framework, distribution, cuda = sys.argv[1:]
version = importlib.metadata.version(distribution)
ops = "gloo"
if framework == "torch":
    # Not `import torch`, which takes seconds.
    torch = runpy.run_path(os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "version.py"))
    version = torch["__version__"].replace("+", ".")
    if cuda and not torch["cuda"]:
        sys.exit(f"PyTorch {version} was made without CUDA")
    ops = "nccl" if torch["cuda"] and (cuda or shutil.which("nvcc")) else "gloo"
tag = "cp%d%d" % sys.version_info[:2]
glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
print(f"{tag}-{framework}{version}-{ops}-glibc{glibc}-{platform.machine()}")
PY
)
key=horovod$HOROVOD_VERSION-$("$python" -c "$describe" "$FRAMEWORK" "$DISTRIBUTION" "$CUDA" 2>/dev/null) || {
    echo "error: $python has no $DISTRIBUTION for the flavour $FLAVOUR: set PYTHON to an interpreter that has it" >&2
    exit 1
}
# A wheel has kernels for some generations of GPUs only.
if [ -n "$CUDA" ]; then key=$key-sm${CUDA_ARCHITECTURES##*,}; fi
wheels=$cache/wheels/$key
find_wheel() { find "$wheels" -name 'horovod-*.whl' 2>/dev/null | head -n 1; }

fetch() { # the wheel that the operator names for this key, if one is named
    local place dist=$cache/build/$key.fetched
    for place in ${SCHEDULEARN_HOROVOD_WHEELS:-}; do
        case $place in */"$key"/horovod-*.whl*) ;; *) continue ;; esac
        rm -rf "$dist"
        if step 0 5 20 "fetching Horovod's wheel" "$python" -m pip download --no-deps --no-index --no-cache-dir \
            --dest "$dist" "$place"; then
            mkdir -p "$cache/wheels"
            rm -rf "$wheels"
            mv "$dist" "$wheels"
            return
        fi
        rm -rf "$dist"
        progress 5 "Horovod's wheel can't be fetched from ${place%%\#*}: compiling it"
    done
    return 1
}

compile() {
    local build=$1
    local other
    for other in torch tensorflow mxnet; do
        local has=WITHOUT name=${other^^}
        if [ "$other" = "$FRAMEWORK" ]; then has=WITH; fi
        if [ "$other" = torch ]; then name=PYTORCH; fi
        export "HOROVOD_${has}_$name=1"
    done
    export HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1
    export HOROVOD_CMAKE=$here/horovod-cmake.sh
    case $key in *-nccl-*) export HOROVOD_GPU_OPERATIONS=NCCL ;; esac
    if [ -d "$build/cuda" ]; then
        export CUDA_HOME=$build/cuda CUDAToolkit_ROOT=$build/cuda HOROVOD_CUDA_HOME=$build/cuda
        export HOROVOD_NCCL_HOME=$build/cuda HOROVOD_NCCL_LINK=SHARED HOROVOD_BUILD_CUDA_CC_LIST=$CUDA_ARCHITECTURES
    fi
    MAKEFLAGS=-j$(nproc)
    export MAKEFLAGS
    local message="configuring Horovod" began=$SECONDS from=7 to=22 seconds=31
    on_line() { # make says [ 42%]: of the files
        [[ $1 =~ ^\ *\[\ *([0-9]+)%\] ]] || return 0
        local files=${BASH_REMATCH[1]}
        message="compiling Horovod ($files % of its files)"
        if [ "$FRAMEWORK" != torch ]; then
            from=$((23 + files * 72 / 100)) to=$from
        elif [ "$to" -ne 96 ]; then # a few large files: by the clock
            began=$SECONDS from=23 to=96 seconds=45
        fi
        on_silence
    }
    on_silence() {
        local elapsed=$((SECONDS - began))
        if [ "$elapsed" -gt "$seconds" ]; then elapsed=$seconds; fi
        progress $((from + (to - from) * elapsed / seconds)) "$message"
    }
    progress 7 "$message"
    cd "$build/src"
    # setup.py itself, not `pip wheel`: pip would build in a fresh folder each time and forget the object files.
    watch "$build/venv/bin/python" setup.py --quiet bdist_wheel --dist-dir "$build/dist"
}

need_headers() { # of Python: the official images have them, Debian's and Ubuntu's Python only with a further package
    local header
    header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include") + "/Python.h")')
    if [ -e "$header" ]; then return; fi
    local package
    package=$("$python" -c 'import sys; print("libpython%d.%d-dev" % sys.version_info[:2])')
    [ "$(id -u)" -eq 0 ] || die "$header is missing: install it first (Debian, Ubuntu: sudo apt-get install $package)" 3
    apt_install "$package"
    [ -e "$header" ] || die "$header is missing, and $package does not bring it: \$PYTHON must be a Python with headers" 3
}

prepare() { # a private environment for the build tools, which sees the framework of $PYTHON, and the unpacked source
    local build=$1 venv=$1/venv
    local pip=("$python" -m pip --python "$venv/bin/python")
    if [ ! -e "$build/prepared" ]; then
        rm -rf "$build"
        mkdir -p "$build/src"
        step 0 2 1 "making a build environment" "$python" -m venv --without-pip "$venv"
        "$python" -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' \
            >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/framework.pth"
        # shellcheck disable=SC2086  # a list of words
        step 2 5 5 "installing build tools" "${pip[@]}" install --no-compile --ignore-installed $BUILD_REQUIREMENTS
        step 5 7 4 "fetching Horovod's source" "${pip[@]}" download --dest "$build" --no-deps \
            --no-build-isolation --no-binary horovod --no-cache-dir "horovod==$HOROVOD_VERSION"
        if [ -n "$CUDA" ]; then prepare_cuda "$build"; fi
        tar -xzf "$build/horovod-$HOROVOD_VERSION.tar.gz" -C "$build/src" --strip-components 1
        touch "$build/prepared"
    fi
    local found
    found=$(cmake --version 2>/dev/null | sed -n 's/.*version \([0-9]*\.[0-9]*\).*/\1/p' || true)
    case $found in
        3.1[89] | 3.[2-9]?) SCHEDULEARN_CMAKE=cmake ;;
        *)
            step 7 7 3 "installing cmake" "${pip[@]}" install --no-compile "$CMAKE_REQUIREMENT"
            SCHEDULEARN_CMAKE=$venv/bin/cmake
            ;;
    esac
    export SCHEDULEARN_CMAKE
}

# A folder as a CUDA toolkit has it, of what pip brings: its compiler by itself, the headers and libraries that came with
# the framework, and NCCL. By links, except what finds its neighbours by where it lies.
prepare_cuda() { # build
    local toolkit version part
    if [ "$CUDA" = 12 ]; then
        prepare_cuda12 "$1"
        return
    fi
    version=$("$python" -c 'from importlib.metadata import version; print(version("cuda-toolkit"))')
    step 5 6 10 "installing the compiler of CUDA $version" "$python" -m pip --python "$1/venv/bin/python" \
        install --no-compile --ignore-installed "cuda-toolkit[$CUDA_PARTS]==$version"
    toolkit=$1/cuda
    mkdir -p "$toolkit"
    for part in $("$python" -c "$list_cuda"); do cp -rsf "$part"/{include,lib} "$toolkit/"; done
    part=$("$1/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia/cu${version%%.*}
    cp -rsf "$part/include" "$part/lib" "$toolkit/"
    cp -r "$part/bin" "$part/nvvm" "$toolkit/"
    ln -sfn lib "$toolkit/lib64"
    # Packages have no names of libraries without a version, which linkers look for.
    for part in "$toolkit"/lib/lib{cudart,nccl}.so.*; do ln -sf "${part##*/}" "${part%.so.*}.so"; done
}

# The compiler of CUDA 12 is on no index of packages: it is the machine's own. NCCL came with the framework.
prepare_cuda12() { # build
    local own=${CUDA_HOME:-/usr/local/cuda} part
    [ -x "$own/bin/nvcc" ] ||
        die "there is no $own/bin/nvcc: set CUDA_HOME to CUDA 12.6, or SCHEDULEARN_HOROVOD_WHEELS to a wheel for $key" 3
    mkdir -p "$1/cuda"
    cp -rs "$own"/. "$1/cuda/"
    for part in $("$python" -c "$list_cuda"); do
        if [ -d "$part" ]; then cp -rsf "$part"/{include,lib} "$1/cuda/"; fi
    done
    ln -sf libnccl.so.2 "$1/cuda/lib/libnccl.so"
}

list_cuda=$(
    cat <<'PY'
import pathlib, nvidia
for folder in nvidia.__path__:
    print(*sorted(pathlib.Path(folder).glob("cu[0-9]*")), pathlib.Path(folder) / "nccl", sep="\n")
PY
)

main() {
    if [ -n "$(find_wheel)" ]; then
        progress 100 "Horovod's wheel is there"
        echo "ready $(find_wheel)"
        return
    fi
    open_log build-wheel
    lock "wheel-$key"
    if [ -z "$(find_wheel)" ] && ! fetch; then
        local build=$cache/build/$key dist resumed=
        if [ -e "$build/prepared" ]; then resumed=yes; fi
        progress 0 "looking for compilers"
        need g++ g++
        need make make
        need_headers
        prepare "$build"
        if ! compile "$build"; then
            # What an interrupted build left may be broken: then once more, from nothing.
            [ -n "$resumed" ] || die "Horovod does not compile: $(grep -m 1 ' error: ' "$log" || echo 'see the log')"
            progress 7 "compiling again, from nothing"
            rm -rf "$build/src/build" "$build/dist"
            compile "$build"
        fi
        progress 97 "packing the wheel"
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
exit # bash reads a script while it runs it: what an update appends is not for this run
