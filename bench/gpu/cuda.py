"""Holds memory of a GPU, or makes an error of a program on it, by the driver alone. Run by the checks.

cuda.py hold BYTES | address | misaligned
"""

from __future__ import annotations

import ctypes
import sys
import time

_STORE = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 where)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [where];
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
FAULTS = {"address": 0x10, "misaligned": 1}
"""A write to memory that nobody has; a write of four bytes one byte beside where they may lie."""


def _driver() -> ctypes.CDLL:
    """CUDA's driver, with a context of the first GPU that is visible."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _check(cuda.cuInit(0), "cuInit")
    _check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    _check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    _check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return cuda


def _allocate(cuda: ctypes.CDLL, size: int) -> int:
    address = ctypes.c_uint64()
    _check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), "cuMemAlloc")
    return address.value


def hold(size: int) -> None:
    """Until it is killed."""
    _allocate(_driver(), size)
    print("step held", flush=True)
    time.sleep(600)


def fail(kind: str) -> None:
    """One thread writes where it must not; prints CUDA's number of the error."""
    cuda = _driver()
    where = FAULTS[kind] if kind == "address" else _allocate(cuda, 4096) + FAULTS[kind]
    module, function, argument = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(where)
    _check(cuda.cuModuleLoadData(ctypes.byref(module), _STORE), "cuModuleLoadData")
    _check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"store"), "cuModuleGetFunction")
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p))
    _check(cuda.cuLaunchKernel(function, *[1] * 6, 0, None, arguments, None), "cuLaunchKernel")
    print(f"error {cuda.cuCtxSynchronize()}", flush=True)


def _check(answer: int, what: str) -> None:
    if answer:
        sys.exit(f"{what}: CUDA's error {answer}")


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(int(sys.argv[2]))
    else:
        fail(sys.argv[1])
