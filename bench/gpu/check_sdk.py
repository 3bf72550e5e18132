"""What the SDK measures on a GPU, what it costs, and what it does when memory runs out or a job is stopped."""

from __future__ import annotations

import re
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator

from bench.gpu.machine import JOB, PATIENCE_S, Machine, begun, found_in, started, trained
from bench.gpu.report import Check, passed
from bench.gpu.variants import VARIANTS

ROUNDS = 5
MOST_TRIES = 4
LARGEST_BATCH = 4096


def _model(machine: Machine) -> tuple[str, int]:
    """Large enough that data are fetched while the GPU computes."""
    return ("resnet50", 64) if machine.device == "cuda" else ("tiny", 8)


def timing(machine: Machine) -> Iterator[Check]:
    """The step time that the SDK tells, against the pace of the same run by the machine's clock over all its steps; and
    that the losses are those of a run without the SDK."""
    machine.needs_training()
    model, batch = _model(machine)
    for variant in VARIANTS:
        if machine.device == "cpu" and variant in ("fp16", "compile", "graph"):
            yield Check(f"step time, {variant}", "SKIPPED", "needs a GPU")
            continue
        how = (model, "--batch", batch, "--variant", variant, "--device", machine.device, "--steps", 200)
        plain, _ = trained(*how, SCHEDULEARN_JOB_ID="")
        with_sdk, _ = trained(*how, **JOB)
        told = next((seconds for samples, seconds in with_sdk["told"] if samples == batch), 0.0)
        off = told / with_sdk["pace_s"] - 1
        measured = f"{told * 1e3:.2f} ms, by the machine's clock {with_sdk['pace_s'] * 1e3:.2f} ms ({off:+.1%})"
        yield passed(f"step time, {variant}", abs(off) <= 0.05, measured, "within 5 %")
        apart = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(with_sdk["losses"], plain["losses"], strict=True))
        yield passed(f"losses with the SDK, {variant}", apart <= 0.02, f"{apart:.2%} apart at most", "2 %")


def overhead(machine: Machine) -> Iterator[Check]:
    """Whole runs with and without the SDK in turns: the middle of the ratios of neighbours."""
    machine.needs_training()
    for model, wanted_s, most in ((_model(machine)[0], 0.05, 0.01), ("tiny", 0.005, 0.03)):
        batch = _batch_for(machine, model, wanted_s)
        steps = max(60, int(6 / wanted_s))
        how = (model, "--batch", batch, "--device", machine.device, "--steps", steps)
        ratios, plain = [], {}
        for _ in range(ROUNDS):
            plain, _ = trained(*how, SCHEDULEARN_JOB_ID="")
            with_sdk, _ = trained(*how, **JOB)
            ratios.append(with_sdk["pace_s"] / plain["pace_s"])
        over, step = statistics.median(ratios) - 1, plain["pace_s"]
        name = f"overhead of the SDK at {wanted_s * 1e3:.0f} ms"
        yield passed(name, over <= most, f"{over:+.2%} at {step * 1e3:.1f} ms, batch {batch}", f"<= {most:.0%}")


def _batch_for(machine: Machine, model: str, step_s: float) -> int:
    """Return the batch, a power of 2, whose steps take nearest to `step_s`; the smallest if all take longer.

    Small batches of a small model all take as long, since the processor launches kernels no faster: no slope tells how
    large a batch must be.
    """
    found: dict[int, float] = {}
    batch = 8
    while batch <= LARGEST_BATCH and (not found or max(found.values()) < step_s):
        run, _ = trained(model, "--batch", batch, "--device", machine.device, "--steps", 60, SCHEDULEARN_JOB_ID="")
        found[batch] = run["pace_s"]
        batch *= 2
    return min(found, key=lambda each: abs(found[each] - step_s))


def noise(machine: Machine) -> Iterator[Check]:
    """At fixed weights: what the SDK finds while it trains, against the gradients of all batches taken together."""
    machine.needs_training()
    found, _ = trained("tiny", "--batch", 32, "--device", machine.device, "--steps", 300, "--noise", **JOB)
    off = found["noise"] / found["offline"] - 1
    measured = f"{found['noise']:.1f} samples, offline {found['offline']:.1f} ({off:+.0%})"
    yield passed("gradient noise scale", abs(off) <= 0.25, measured, "within 25 %")


def checkpoint(machine: Machine) -> Iterator[Check]:
    """A job of 1 GB of state on the GPU is stopped, saves itself, and goes on where it was."""
    machine.needs_training()
    model, batch = _model(machine)
    size = 1_000_000_000 if machine.device == "cuda" else 20_000_000
    how = (model, "--batch", batch, "--device", machine.device, "--steps", 2000, "--ballast", size)
    with tempfile.TemporaryDirectory(prefix="schedulearn-gpu-check-") as folder:
        env = {**JOB, "SCHEDULEARN_CHECKPOINT_DIR": folder}
        with started(*how, **env) as process:
            begun(process)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=PATIENCE_S)
            saving = time.monotonic() - began
        kept = process.returncode == 75
        yield passed(
            f"checkpoint of {size / 1e9:g} GB", kept, f"exit code {process.returncode} after {saving:.1f} s", "75"
        )
        stopped = re.search(r"stopped after step (\d+)", output)
        with started(*how, **env, SCHEDULEARN_ATTEMPT="2") as process:
            assert process.stdout is not None
            began = time.monotonic()
            said = next((line for line in process.stdout if "continues at" in line), "")
            took = time.monotonic() - began
        same = stopped is not None and f"step {stopped[1]}" in said
        yield passed(
            "resume", same, f"{said.strip() or 'nothing'}; {took:.1f} s from the start of Python", "the same step"
        )


def out_of_memory(machine: Machine) -> Iterator[Check]:
    """A batch that does not fit is told as such; who does as he is told gets to one that fits."""
    machine.needs_gpu()
    machine.needs_training()
    total = float((machine.gpu or {})["memory.total"]) * (1 << 20)
    too_many = int(total / 40e6)  # ResNet-50 takes about 90 MB a sample
    how = ("resnet50", "--device", "cuda", "--steps", 10)
    tried, fits = [too_many], False
    while not fits and len(tried) <= MOST_TRIES:
        with started(*how, "--batch", tried[-1], **JOB) as process:
            output, _ = process.communicate(timeout=PATIENCE_S)
        fits = process.returncode == 0 and found_in(output).get("steps") == 10
        said = _said(output)
        if len(tried) == 1:
            yield passed("out of memory is told as such", bool(said), said or output[-100:], "one line of the SDK")
        if not (told := re.search(r"set max_local=(\d+)", said)):
            break
        tried.append(int(told[1]))
    measured = f"batches tried: {', '.join(map(str, tried[:MOST_TRIES]))}; the last {'fits' if fits else 'does not'}"
    yield passed("its advice leads to a batch that fits", fits, measured, f"within {MOST_TRIES}")
    yield from _after_passes_that_fitted(too_many)


def _after_passes_that_fitted(too_many: int) -> Iterator[Check]:
    """Then the SDK knows what a sample takes."""
    how = ("resnet50", "--device", "cuda", "--batch", 16, "--steps", 3, "--grow")
    _, output = trained(*how, too_many, **JOB)
    said = _said(output)
    told = re.search(r": (\d+) would fit", said)
    most = int(told[1]) if told else 0
    _, output = trained(*how, max(1, most), **JOB)
    fits = f"fitted {most}\n" in output
    _, output = trained(*how, int(1.15 * most) + 1, **JOB)
    near = "fitted" not in output
    measured = (
        f"{said or 'nothing'}: {'fits' if fits else 'does not fit'}, 15 % more {'does not' if near else 'does too'}"
    )
    yield passed("the batch that would fit", fits and near, measured, "fits, and 15 % more do not")


def _said(output: str) -> str:
    return next((line for line in output.splitlines() if "out of memory on the GPU" in line), "")
