"""Metrics and progress in the output of training scripts as they print it."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from matrices import each

from schedulearn.scheduler.reports.log_lines import (
    MAX_LINE,
    MAX_NAMES,
    LogProgress,
    LogReading,
    complete_part,
    lines_of,
)

Found = list[tuple[str, int, float]]

LINES: dict[str, tuple[str, Found, LogProgress | None]] = {
    "a plain loop": ("epoch 3/60 loss 0.41", [("loss", 3, 0.41)], LogProgress(3, 60, 0, 0)),
    "a loop that counts from 0": ("Epoch 0/60 - loss: 0.4", [("loss", 0, 0.4)], LogProgress(1, 60, 0, 0)),
    "brackets": ("[Epoch 3/60] loss = 0.41", [("loss", 3, 0.41)], LogProgress(3, 60, 0, 0)),
    "epochs and steps": (
        "Epoch [3/60], Step [120/600], Loss: 0.4123, Acc: 93.1%",
        [("loss", 1320, 0.4123), ("acc", 1320, 93.1)],
        LogProgress(2, 60, 120, 600),
    ),
    "steps": ("step 120/5000 loss=0.41", [("loss", 120, 0.41)], LogProgress(0, 1, 120, 5000)),
    "nanoGPT": (
        "iter 120: loss 2.3456, time 5.12ms, mfu 3.1%\nstep 250: train loss 2.3, val loss 2.4",
        [("loss", 120, 2.3456), ("train_loss", 250, 2.3), ("val_loss", 250, 2.4)],
        None,
    ),
    "PyTorch's MNIST": (
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300039\n\nTest set: Average loss: 0.0500, Accuracy: 9834/10000 (98%)",
        [("loss", 640, 2.300039), ("test_loss", 640, 0.05), ("test_accuracy", 640, 0.9834)],
        None,
    ),
    "PyTorch's ImageNet": (
        "Epoch: [0][ 10/5005]\tTime  0.532 ( 0.61)\tData  0.1 (0.2)\tLoss 6.9e+00 (6.93e+00)\tAcc@1   0.39 (  0.1)",
        [("loss", 10, 6.9), ("acc_1", 10, 0.39)],
        None,
    ),
    "Lightning": (
        "Epoch 3:  45%|████▌     | 450/1000 [00:10<00:12, 43.21it/s, v_num=0, train_loss=0.412]\r"
        "Validation DataLoader 0:  50%|█████     | 5/10 [00:01<00:01,  4.9it/s]",
        [("train_loss", 2450, 0.412)],
        None,
    ),
    "Keras 3": (
        "Epoch 3/10\n\x1b[1m120/500\x1b[0m \x1b[32m━━━━━━━━\x1b[0m 2s 5ms/step - accuracy: 0.9123 - loss: 0.3123"
        "\x08\x08\x08\x08\r500/500 ━━ 3s 5ms/step - accuracy: 0.92 - loss: 0.30 - val_accuracy: 0.90 - val_loss: 0.33",
        [
            ("accuracy", 1120, 0.9123),
            ("loss", 1120, 0.3123),
            ("accuracy", 1500, 0.92),
            ("loss", 1500, 0.3),
            ("val_accuracy", 1500, 0.9),
            ("val_loss", 1500, 0.33),
        ],
        LogProgress(2, 10, 500, 500),
    ),
    "Keras 2": (
        "Epoch 3/10\n120/500 [=====>.........] - ETA: 2s - loss: 0.31",
        [("loss", 1120, 0.31)],
        LogProgress(2, 10, 120, 500),
    ),
    "Hugging Face": (
        "Map: 100%|██████| 1000/1000 [00:10<00:00, 99.3 examples/s]\n"
        " 45%|████▌     | 450/1000 [00:10<00:12, 43.21it/s]\r"
        "{'loss': 0.4123, 'grad_norm': 1.23, 'learning_rate': 4.5e-05, 'epoch': 1.35}\n"
        " 50%|█████     | 5/10 [00:01<00:01,  4.9it/s]\r{'eval_loss': '0.31', 'eval_runtime': 2.1, 'epoch': 1.5}",
        [("loss", 450, 0.4123), ("grad_norm", 450, 1.23), ("learning_rate", 450, 4.5e-05), ("eval_loss", 450, 0.31)],
        LogProgress(0, 1, 450, 1000),
    ),
    "tqdm over epochs": (
        "\rEpochs:  45%|████▌     | 27/60 [00:10<00:12,  2.1it/s, loss=0.41]",
        [("loss", 27, 0.41)],
        LogProgress(0, 1, 27, 60),
    ),
    "tqdm of one epoch after another": (
        " 90%|█████████ | 900/1000 [00:10<00:12, 43.21it/s]\r  1%|          | 10/1000 [00:10<00:12, 43.21it/s]",
        [],
        None,
    ),
    "YOLO": (
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        "      3/100      2.5G      1.234      2.345      1.1        45        640:  45%|████▌   | 45/100 [00:10<",
        [("box_loss", 245, 1.234), ("cls_loss", 245, 2.345), ("dfl_loss", 245, 1.1)],
        LogProgress(2, 100, 45, 100),
    ),
    "Megatron": (
        " iteration      120/    5000 | consumed samples:   1920 | lm loss: 6.412E+00 | loss scale: 1.0 |",
        [("loss", 120, 6.412)],
        LogProgress(0, 1, 120, 5000),
    ),
    "MMDetection": (
        "2024-01-01 10:00:00,123 - mmdet - INFO - Epoch [1][50/1000]\tlr: 2.000e-02, eta: 1:00:00, loss: 1.23",
        [("lr", 50, 0.02), ("loss", 50, 1.23)],
        None,
    ),
    "a worker of Horovod": (
        "[1,0]<stdout>:Epoch 4/5 - loss: 0.4",
        [("loss", 4, 0.4)],
        LogProgress(4, 5, 0, 0),
    ),
    "a fold after another": ("epoch 5/5 loss 0.1\nepoch 1/5 loss 0.9", [("loss", 5, 0.1), ("loss", 5, 0.9)], None),
    "a slower worker": ("epoch 4/9 loss 0.1\nepoch 5/9\nepoch 4/9", [("loss", 4, 0.1)], LogProgress(4, 9, 0, 0)),
    "nothing of the kind": (
        "Downloading:  45%|████ | 450/1000 [00:10<00:12, 1.2MB/s]\nport: 8888 password=123456\nerror 404\nloss: nan\n"
        "epochs: 60\nbatch: 16",
        [],
        None,
    ),
}


def read(text: str, names: list[str] | None = None) -> tuple[Found, LogReading]:
    reading = LogReading()
    values = [tuple(value) for _, line in lines_of(text.encode()) for value in reading.read(line, names)]
    return values, reading  # type: ignore[return-value]


@each(list(LINES.values()), "text", "found", "progress")
def test_lines_of_scripts(text: str, found: Found, progress: LogProgress | None) -> None:
    values, reading = read(text)
    assert (values, reading.progress) == (found, progress), text


def test_a_script_is_followed_to_its_end_and_its_state_survives_as_json() -> None:
    reading, shares = LogReading(), []
    for epoch in range(1, 4):
        for line in (f"Epoch {epoch}/3", "1/2 ━━ loss: 0.5", "2/2 ━━ loss: 0.4"):
            reading = LogReading.load(reading.dump())
            reading.read(line)
            assert reading.progress is not None
            shares.append(round(reading.progress.fraction, 3))
    assert shares == [0, 0.167, 0.333, 0.333, 0.5, 0.667, 0.667, 0.833, 1]


def test_named_metrics_are_read_instead_of_the_usual_ones() -> None:
    values, _ = read("step 1/9 loss 0.4 my_score: 7 Tokens/s=120", ["my_score", "tokens/s"])
    assert values == [("my_score", 1, 7.0), ("tokens/s", 1, 120.0)]


def test_a_script_with_any_number_of_names_has_some() -> None:
    _, reading = read("\n".join(f"loss{number}_acc: 1" for number in range(100)))
    assert len(reading.steps) == MAX_NAMES


def test_an_unfinished_line_waits() -> None:
    assert (complete_part(b"a\nb\rc"), complete_part(b"abc"), complete_part(b"a\x08")) == (4, 0, 2)


PIECES = [
    "a", "1", "epoch ", "epoch 1/", "1/", "1/2 ", "loss ", "loss: 1 ", "[", "[ 1", " ", "\t", "train ", "\x1b[", "a_",
    "0.", "9%|", "9%|a", "step 1 of ", "val ", "|", "█", "'", "=", "-1e", "\x08", "\r",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.integers(1, 60))
def test_any_output_gives_sane_values(pieces: list[str], times: int) -> None:
    values, reading = read("".join(pieces) * times)
    assert all(step >= 0 and name == name.lower() for name, step, _ in values)
    assert reading.progress is None or 0 <= reading.progress.fraction <= 1
    assert LogReading.load(reading.dump()) == reading


@each(PIECES, "piece")
def test_hostile_lines_cost_no_more_than_their_length(piece: str) -> None:
    """The time of the whole line, relative to ten lines of a tenth. 100 if it were quadratic, 10 per repetition."""
    whole = piece * (MAX_LINE // len(piece))

    def seconds(line: str, lines: int) -> float:
        best = 9.9
        for _ in range(5):
            reading, began = LogReading(), time.thread_time()
            for _ in range(lines):
                reading.read(line)
            best = min(best, time.thread_time() - began)
        return best

    assert seconds(whole, 5) < 5 * seconds(whole[: len(whole) // 10], 50) + 0.005, piece
    assert seconds(whole * 1000, 5) < 5 * seconds(whole, 5) + 0.005, "more than MAX_LINE is read"


RUN_PAGES = {
    "wandb: 🚀 View run at https://wandb.ai/lab/cifar/runs/0v8m6c0smz": "https://wandb.ai/lab/cifar/runs/0v8m6c0smz",
    "wandb: 🚀 View run big batch at: https://wandb.lab/a/b/runs/x": "https://wandb.lab/a/b/runs/x",
    "🏃 View run bold-fox-3 at: http://ml:5000/#/experiments/1/runs/f0": "http://ml:5000/#/experiments/1/runs/f0",
    "COMET INFO: Experiment is live on comet.com https://www.comet.com/l/p/e": "https://www.comet.com/l/p/e",
    "[neptune] [info] Open in the app: https://app.neptune.ai/l/p/e/P-1": "https://app.neptune.ai/l/p/e/P-1",
    "ClearML results page: https://app.clear.ml/projects/1/experiments/2": "https://app.clear.ml/projects/1/experiments/2",
}


def test_the_page_of_a_run_in_a_tracker_is_found() -> None:
    for line, url in RUN_PAGES.items():
        reading = LogReading()
        assert reading.read(line) == reading.read(f"\x1b[34m{line}\x1b[0m") == []
        assert reading.run_pages == [url]
        assert LogReading.load(reading.dump()) == reading


def test_other_addresses_are_no_pages_of_runs_and_the_last_ones_stay() -> None:
    reading = LogReading()
    for line in ("View project at https://wandb.ai/lab/cifar", "View run at javascript:alert(1)", "see https://x/y"):
        reading.read(line)
    assert reading.run_pages == []
    for number in range(9):
        reading.read(f"View run at https://wandb.ai/r/{number}")
    assert reading.run_pages == [f"https://wandb.ai/r/{number}" for number in range(4, 9)]


def test_a_reading_stored_before_there_were_pages_is_loaded() -> None:
    stored = LogReading(epoch=3).dump()
    del stored["run_pages"]
    assert LogReading.load(stored) == LogReading(epoch=3)
