#!/usr/bin/env bash
# Make the virtual environment in which local jobs run on a machine without Docker: PyTorch, Horovod, scikit-learn.
#
#   build-env.sh                the interpreter is $PYTHON, else python3
#
# It lies in <cache>/envs/horovod-cpu-<key>/, with the examples in app/examples; a job's working directory is app. Ready
# already: returns at once, after copying the examples if they changed. A virtual environment cannot be moved, so it is
# built in place, and counts only once the file `ready` is in it, written after two workers have met.
# PyTorch comes from where the user's pip configuration says: an index with CPU builds there avoids gigabytes of CUDA.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

read -r tag machine glibc <<<"$("$python" -c "$describe_python")"
key=torch$TORCH_VERSION-horovod$HOROVOD_VERSION-$tag-glibc$glibc-$machine-$(requirements_hash)
env=$cache/envs/horovod-cpu-$key

main() {
    if ! is_ready; then
        open_log build-env
        lock "env-$key"
        if ! is_ready; then build; fi
    fi
    if ! examples_fresh; then
        lock "env-$key"
        copy_examples
    fi
    progress 100 "the environment is ready"
    echo "ready $env"
}

is_ready() { [ -e "$env/ready" ] && [ -x "$env/bin/python" ]; } # the link dangles when the system's Python has gone

build() {
    # With Horovod's wheel in the cache, pip is nearly all the work; else the compiler is.
    local pip=12 wheel=95
    if compgen -G "$cache/wheels/horovod$HOROVOD_VERSION-*/horovod-*.whl" >/dev/null; then pip=75 wheel=77; fi
    rm -rf "$env"
    mkdir -p "$cache/envs"
    need_venv
    step 0 1 5 "making the environment" "$python" -m venv "$env"
    # shellcheck disable=SC2086  # lists of words
    step 1 "$pip" 60 "installing PyTorch $TORCH_VERSION" "$env/bin/pip" install $REQUIREMENTS $HOROVOD_REQUIREMENTS
    PYTHON=$env/bin/python substep "$pip" "$wheel" "Horovod's wheel" "$here/build-wheel.sh"
    step "$wheel" $((wheel + 1)) 3 "installing Horovod" "$env/bin/pip" install --no-deps "$ready"
    # `horovodrun --check-build` looks at the build flags only; two workers that add something up prove that it works.
    PATH=$env/bin:$PATH step $((wheel + 1)) 100 10 "trying it with two workers" \
        "$env/bin/horovodrun" -np 2 -H localhost:2 python "$here/check.py"
    touch "$env/ready"
}

need_venv() { # Debian and Ubuntu ship venv without ensurepip, in a package of its own
    if "$python" -c 'import ensurepip' 2>/dev/null; then return; fi
    [ "$(id -u)" -eq 0 ] || die "$python has no venv (Debian, Ubuntu: sudo apt-get install python3-venv)" 3
    apt_install python3-venv
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
