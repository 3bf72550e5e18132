#!/usr/bin/env bash
# Make the virtual environment in which local jobs run on a machine without Docker: Horovod, scikit-learn and a framework.
#
#   build-env.sh [cpu|cuda12|cuda13|keras|keras-cuda12|keras-cuda13|tensorflow|mxnet]       the interpreter is $PYTHON, else python3
#
# cpu is PyTorch, keras Keras 3 on PyTorch. It lies in <cache>/envs/horovod-<flavour>-<key>/, with the examples in app/examples; a job's working directory is app. Ready
# already: returns at once, after copying the examples if they changed. A virtual environment cannot be moved, so it is
# built in place, and counts only once the file `ready` is in it, written after two workers have met.
# PyTorch comes from where the user's pip configuration says: an index with CPU builds there avoids gigabytes of CUDA.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_flavour "${1:-cpu}"

read -r tag machine glibc <<<"$("$python" -c "$describe_python")"
key=$FRAMEWORK$FRAMEWORK_VERSION-horovod$HOROVOD_VERSION-$tag-glibc$glibc-$machine-$(requirements_hash)
env=$cache/envs/horovod-$FLAVOUR-$key

main() {
    if ! is_ready; then
        open_log build-env
        lock "env-$FLAVOUR-$key"
        if ! is_ready; then build; fi
    fi
    if ! examples_fresh; then
        lock "env-$FLAVOUR-$key"
        copy_examples
    fi
    progress 100 "the environment is ready"
    echo "ready $env"
}

is_ready() { [ -e "$env/ready" ] && [ -x "$env/bin/python" ]; } # the link dangles when the system's Python has gone

build() {
    # With Horovod's wheel in the cache, pip is nearly all the work; else the compiler is.
    local pip=12 wheel=95
    if compgen -G "$cache/wheels/horovod$HOROVOD_VERSION-*-$FRAMEWORK*/horovod-*.whl" >/dev/null; then pip=75 wheel=77; fi
    rm -rf "$env"
    mkdir -p "$cache/envs"
    need_venv
    need_libraries
    step 0 1 5 "making the environment" "$python" -m venv "$env"
    # Modules are compiled when they are first imported: most never are, and all of them at once take 20 s here.
    # shellcheck disable=SC2086  # lists of words
    step 1 "$pip" "$PIP_SECONDS" "installing $FRAMEWORK_NAME $FRAMEWORK_VERSION" \
        "$env/bin/pip" install --no-compile $REQUIREMENTS $HOROVOD_REQUIREMENTS
    # Its first import compiles a thousand modules, as long as one core has nothing else to do, and once, not by each worker.
    env -u PYTHONDONTWRITEBYTECODE "$env/bin/python" -c "import $FRAMEWORK" >>"$log" 2>&1 9>&- &
    local imported=$!
    PYTHON=$env/bin/python substep "$pip" "$wheel" "Horovod's wheel" "$here/build-wheel.sh" "$FLAVOUR"
    step "$wheel" $((wheel + 1)) 3 "installing Horovod" "$env/bin/pip" install --no-deps "$ready"
    wait "$imported" || true # what is wrong with it, the workers tell
    # `horovodrun --check-build` looks at the build flags only; two workers that add something up prove that it works. They
    # also leave the modules compiled that every job imports.
    PATH=$env/bin:$PATH step $((wheel + 1)) 100 10 "trying it with two workers" \
        env -u PYTHONDONTWRITEBYTECODE "$env/bin/horovodrun" -np 2 -H localhost:2 python "$here/check.py" "$FRAMEWORK"
    touch "$env/ready"
}

need_venv() { # Debian and Ubuntu ship venv without ensurepip, in a package of its own
    if "$python" -c 'import ensurepip' 2>/dev/null; then return; fi
    [ "$(id -u)" -eq 0 ] || die "$python has no venv (Debian, Ubuntu: sudo apt-get install python3-venv)" 3
    apt_install python3-venv
}

need_libraries() { # of the system, which the framework's own are linked to
    local package
    for package in $SYSTEM_PACKAGES; do
        # libgomp1 holds libgomp.so.1
        if "$python" -c "import ctypes; ctypes.CDLL('${package%[0-9]}.so.${package##*[a-z]}')" 2>/dev/null; then continue; fi
        [ "$(id -u)" -eq 0 ] || die "$package is missing: install it first (Debian, Ubuntu: sudo apt-get install $package)" 3
        apt_install "$package"
    done
}

examples_fresh() { [ "$(cat "$env/app/examples.hash" 2>/dev/null)" = "$(hash_of examples)" ]; }

copy_examples() {
    mkdir -p "$env/app"
    rm -rf "$env/app/examples.new" "$env/app/examples.old"
    cp -r "$here/examples" "$env/app/examples.new"
    if [ -e "$env/app/examples" ]; then mv "$env/app/examples" "$env/app/examples.old"; fi
    mv "$env/app/examples.new" "$env/app/examples"
    rm -rf "$env/app/examples.old"
    hash_of examples >"$env/app/examples.hash"
}

main "$@"
exit
