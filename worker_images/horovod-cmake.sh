#!/bin/sh
# Stands in for cmake (HOROVOD_CMAKE) while Horovod 0.28.1 is compiled, because its sdist is older than today's PyTorch:
# - PyTorch's headers need C++17, Horovod asks for C++14: patched just before cmake reads the files (the other frameworks
#   need no patch);
# - Horovod always compiles with -g: without it the build is faster and the library 30 times smaller.
set -eu
cmake=${SCHEDULEARN_CMAKE:-cmake}
if [ -f "${1:-}/CMakeLists.txt" ]; then # the configure call; the build call starts with --build
    if [ -n "${HOROVOD_WITH_PYTORCH:-}" ]; then
        sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' "$1/CMakeLists.txt" "$1/horovod/torch/CMakeLists.txt"
    fi
    exec "$cmake" "$@" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG" -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG"
fi
exec "$cmake" "$@"
