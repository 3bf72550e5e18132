#!/bin/sh
# Stands in for cmake (HOROVOD_CMAKE) while Horovod 0.28.1 is compiled, because its sdist is older than today's PyTorch, and
# compiles far more than is needed. For PyTorch, where all of this was measured:
# - PyTorch's headers need C++17, Horovod asks for C++14: patched just before cmake reads the files (the other frameworks
#   need no patch);
# - Horovod includes the whole C++ frontend of PyTorch, and uses tensors and Python bindings: it gets just these, from
#   headers that come before PyTorch's own;
# - only what adds up tensors has to be fast: the rest is compiled with -O1;
# - many small files that include the same headers are compiled as one: those of Gloo, and without CUDA also those of
#   Horovod's core and of its bindings;
# - cmake imports PyTorch nine times to ask where it is: without CUDA its files tell that;
# - the compiler collects garbage less often.
# For all frameworks:
# - Horovod always compiles with -g: without it the build is faster and the library 30 times smaller;
# - where nothing of CUDA is compiled, nothing of CUDA is looked for.
# - it uses strings, exceptions and integers of fixed width without including their headers, which GCC 13 and newer ask for.
set -eu
cmake=${SCHEDULEARN_CMAKE:-cmake}
if [ ! -f "${1:-}/CMakeLists.txt" ]; then exec "$cmake" "$@"; fi # the build call, which starts with --build
source=$1

lean_headers() { # header...: what Horovod includes instead of torch/extension.h and torch/torch.h
    mkdir -p "$source/lean/torch"
    {
        echo '#pragma once'
        printf '#include <%s>\n' "$@" torch/csrc/utils/pybind.h
        echo 'namespace torch { using namespace at; }'
    } >"$source/lean/torch/extension.h"
    echo '#include <torch/extension.h>' >"$source/lean/torch/torch.h"
}

patch_for_torch() {
    sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' "$source/CMakeLists.txt" "$source/horovod/torch/CMakeLists.txt"
    # Options of single files keep them out of those that are compiled as one.
    cat >>"$source/horovod/torch/CMakeLists.txt" <<'CMAKE'
target_include_directories(${PYTORCH_TARGET_LIB} BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/lean")
target_compile_options(${PYTORCH_TARGET_LIB} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
foreach(source ${SOURCES} ${PYTORCH_SOURCES})
    if(source MATCHES "/(gloo_operations|collective_operations|nccl_operations|half)[.]cc$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -O3)
    elseif(source MATCHES "/(optim/[a-z_]+|parameter_manager)[.]cc$")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP tuning)
    elseif(source MATCHES "/horovod/common/")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP core)
    else()
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP bindings)
    endif()
endforeach()
CMAKE
    # allreduce_local.cc has a name of its own for a type that the others call the same.
    cat >>"$source/third_party/gloo/gloo/CMakeLists.txt" <<'CMAKE'
set_target_properties(gloo PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/allreduce_local.cc" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
CMAKE
    sed -i '/^project(horovod CXX)/a\
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)\
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-expand=200>)\
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=400000>)\
endif()' "$source/CMakeLists.txt"
}

patch_for_torch_without_cuda() {
    cat >>"$source/horovod/torch/CMakeLists.txt" <<'CMAKE'
set_target_properties(${PYTORCH_TARGET_LIB} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
CMAKE
    cat >"$source/cmake/Modules/FindPytorch.cmake" <<'CMAKE'
execute_process(COMMAND ${PY_EXE} -c "import importlib.util, os, runpy
home = os.path.dirname(importlib.util.find_spec('torch').origin)
print(home, runpy.run_path(os.path.join(home, 'version.py'))['__version__'], sep=';')"
                OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE)
list(GET found 0 home)
list(GET found 1 Pytorch_VERSION)
set(PYTORCH_FOUND TRUE)
set(Pytorch_CUDA FALSE)
set(Pytorch_ROCM FALSE)
set(Pytorch_CXX11 TRUE)
set(Pytorch_COMPILE_FLAGS -D_GLIBCXX_USE_CXX11_ABI=1)
set(Pytorch_INCLUDE_DIRS "${home}/include" "${home}/include/torch/csrc/api/include")
set(Pytorch_LIBRARY_DIRS "${home}/lib")
foreach(name c10 torch torch_cpu torch_python)
    list(APPEND Pytorch_LIBRARIES "${home}/lib/lib${name}.so")
endforeach()
CMAKE
}

# GCC 14 refuses to assign to a constant member, though nobody does. A later Horovod may have no such file.
sed -i 's/const size_type count_;/size_type count_;/' "$source/third_party/flatbuffers/include/flatbuffers/stl_emulation.h" || true

if [ -n "${HOROVOD_WITH_PYTORCH:-}" ] && [ ! -e "$source/patched" ]; then
    patch_for_torch
    if [ -n "${HOROVOD_GPU_OPERATIONS:-}" ]; then
        lean_headers torch/types.h
    else
        lean_headers ATen/core/Tensor.h ATen/ops/empty.h ATen/ops/empty_like.h ATen/ops/zeros.h
        patch_for_torch_without_cuda
    fi
    touch "$source/patched"
fi
if [ -z "${HOROVOD_GPU_OPERATIONS:-}" ]; then
    set -- "$@" -DCMAKE_CUDA_COMPILER= -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
fi
exec "$cmake" "$@" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG -include string -include cstdint -include stdexcept" -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O2 -DNDEBUG"
