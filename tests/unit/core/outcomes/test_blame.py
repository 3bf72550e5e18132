"""Start errors and lines of output: each as engines, toolkits and frameworks write it, and whose fault it is."""

import re
from pathlib import Path

from matrices import each

from schedulearn.scheduler.core.outcomes.blame import OUTPUT, START_ERRORS, of_output, of_start

RUNC = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
)
HOOK = RUNC + "unable to start container process: error during container init: error running prestart hook #0: "
CLI = HOOK + "exit state 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: "

STARTS = [
    (CLI + "initialization error: nvml error: driver/library version mismatch: unknown", "driver_mismatch", "host"),
    (CLI + "initialization error: driver rpc error: timed out: unknown", "driver_silent", "host"),
    (CLI + "initialization error: nvml error: driver not loaded: unknown", "driver_not_loaded", "host"),
    (
        CLI + "requirement error: unsatisfied condition: cuda>=13.0, please update your driver to a newer version, or "
        "use an earlier cuda container: unknown", "driver_too_old", "image",
    ),
    ("unsatisfied condition: cuda>=12.6 (cuda=12.2)", "driver_too_old", "image"),
    (CLI + "device error: GPU-5d1c8f6e: unknown device: unknown", "gpu_unknown", "gpu"),
    (
        'could not apply required modification to OCI specification: error modifying OCI spec: failed to inject CDI '
        'devices: unresolvable CDI devices nvidia.com/gpu=GPU-5d1c8f6e', "cdi_stale", "host",
    ),
    ('could not select device driver "" with capabilities: [[gpu]]', "no_toolkit", "host"),
    ("unknown or invalid runtime name: nvidia", "no_runtime", "host"),
    ("Unknown runtime specified nvidia", "no_runtime", "host"),
    (
        'failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error: exec: '
        '"nvidia-container-runtime": executable file not found in $PATH: unknown', "toolkit_missing", "host",
    ),
    (
        CLI + "initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such "
        "file or directory: unknown", "no_library", "host",
    ),
    (
        'error gathering device information while adding custom device "/dev/nvidia0": no such file or directory',
        "no_device_file", "host",
    ),
    (HOOK + "unsupported capabilities found in 'all,compute' (allowed 'compute,utility')", "capabilities", "user"),
    (CLI + "mount error: failed to add device rules: bpf_prog_query failed: unknown", "toolkit_failed", "host"),
    (CLI + "detection error: nvml error: gpu is lost: unknown", "toolkit_failed", "host"),
    (
        RUNC + 'error mounting "/data" to rootfs at "/app/train.py": mount src=/data: not a directory: unknown: Are '
        "you trying to mount a directory onto a file (or vice-versa)?", "onto_file", "user",
    ),
]  # fmt: skip
LINES = [
    ("RuntimeError: DataLoader worker (pid 97) is killed by signal: Bus error. It is possible that dataloader's "
     "workers are out of shared memory.", "shm_full", "user"),
    ("[0] misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-QjZ1Xv (size 9637888)",
     "nccl_shm", "user"),
    ("RuntimeError: CUDA error: system not yet initialized", "fabric_manager", "host"),
    ("Error 802: system not yet initialized (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:109.)",
     "fabric_manager", "host"),
    ("Failed to initialize NVML: Driver/library version mismatch", "driver_mismatch_cuda", "host"),
    ("Error 803: system has unsupported display driver / cuda driver combination", "driver_mismatch_cuda", "host"),
    ("Error 804: forward compatibility was attempted on non supported HW", "forward_compatibility", "image"),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "driver_older_than_cuda",
     "image"),
    ("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
     "no_kernel_image", "image"),
    ("RuntimeError: No CUDA GPUs are available", "no_gpus", "host"),
    ("cudaErrorNoDevice: no CUDA-capable device is detected", "no_gpus", "host"),
    ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "gpu_busy", "gpu"),
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "gpu_busy", "gpu"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_ecc", "gpu"),
]  # fmt: skip
NOTHING = [
    "RuntimeError: CUDA error: device-side assert triggered",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    "Segmentation fault (core dumped)",
    "OSError: [Errno 28] No space left on device: '/outputs/model.pt'",
    "",
]


@each(STARTS, "words", "code", "blame")
def test_a_start_error_has_one_cause_and_says_what_where_and_what_to_do(words: str, code: str, blame: str) -> None:
    found = of_start(words, "h1")
    assert found is not None
    assert (found.cause.code, found.cause.blame) == (code, blame)
    assert found.sentence.startswith("on h1 ")
    assert ": " in found.sentence
    assert not {"{", "()", "\n"} & {part for part in ("{", "()", "\n") if part in found.sentence}


@each(LINES, "line", "code", "blame")
def test_a_line_of_output_has_one_cause(line: str, code: str, blame: str) -> None:
    output = f"epoch 1\n[1,0]<stderr>:{line}\nTraceback follows\n".encode()
    found = of_output(output, "h1")
    assert found is not None
    assert (found.cause.code, found.cause.blame) == (code, blame)
    assert found.sentence.startswith("on h1 ")


@each(NOTHING, "line")
def test_what_says_nothing_of_a_host_or_gpu_blames_nobody(line: str) -> None:
    assert of_output(line.encode(), "h1") is None
    assert of_start(line, "h1") is None


def test_every_row_is_tried() -> None:
    assert {cause.code for cause in START_ERRORS} == {code for _, code, _ in STARTS}
    assert {cause.code for cause in OUTPUT} == {code for _, code, _ in LINES}


def test_the_page_of_faults_has_every_row() -> None:
    page = (Path(__file__).parents[4] / "docs/faults.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\w+) \|", page, re.MULTILINE)
    told = {(code, blame.lower()) for code, blame in rows}
    known = {(cause.code, cause.blame.value) for cause in (*START_ERRORS, *OUTPUT)}
    assert known <= told, known ^ told


def test_the_gpu_that_is_not_known_is_named() -> None:
    found = of_start(CLI + "device error: GPU-5d1c8f6e: unknown device: unknown", "h1")
    assert found is not None
    assert "GPU-5d1c8f6e" in found.sentence
