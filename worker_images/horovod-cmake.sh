#!/bin/sh
# Stands in for cmake (HOROVOD_CMAKE) while Horovod 0.28.1 is compiled, because its sdist is older than today's PyTorch, and
# compiles far more than is needed:
# - PyTorch's headers need C++17, Horovod asks for C++14: patched just before cmake reads the files (the other frameworks
#   need no patch);
# - Horovod includes the whole C++ frontend of PyTorch, and uses tensors and Python bindings: it gets just these, from
#   headers that come before PyTorch's own;
# - only what adds up tensors has to be fast: the rest is compiled with -O1, and Gloo's many small files as one (with
#   PyTorch, where this was measured);
# - Horovod always compiles with -g: without it the build is faster and the library 30 times smaller;
# - where nothing of CUDA is compiled, nothing of CUDA is looked for.
set -eu
cmake=${SCHEDULEARN_CMAKE:-cmake}
if [ ! -f "${1:-}/CMakeLists.txt" ]; then exec "$cmake" "$@"; fi # the build call, which starts with --build

source=$1
if [ -n "${HOROVOD_WITH_PYTORCH:-}" ] && [ ! -e "$source/patched" ]; then
    sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' "$source/CMakeLists.txt" "$source/horovod/torch/CMakeLists.txt"
    mkdir -p "$source/lean/torch"
    for header in extension.h torch.h; do
        printf '#pragma once\n#include <torch/types.h>\n#include <torch/csrc/utils/pybind.h>\n' >"$source/lean/torch/$header"
    done
    cat >>"$source/horovod/torch/CMakeLists.txt" <<'CMAKE'
target_include_directories(${PYTORCH_TARGET_LIB} BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/lean")
foreach(source ${SOURCES} ${PYTORCH_SOURCES})
    if(NOT source MATCHES "/(gloo_operations|collective_operations|nccl_operations|half)[.]cc$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -O1)
    endif()
endforeach()
CMAKE
    # allreduce_local.cc has a name of its own for a type that the others call the same.
    cat >>"$source/third_party/gloo/gloo/CMakeLists.txt" <<'CMAKE'
set_target_properties(gloo PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/allreduce_local.cc" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
CMAKE
    touch "$source/patched"
fi
if [ -z "${HOROVOD_GPU_OPERATIONS:-}" ]; then
    set -- "$@" -DCMAKE_CUDA_COMPILER= -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
fi
exec "$cmake" "$@" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG" -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG"
