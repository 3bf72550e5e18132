"""The SDK with real Keras 2 and 3 under Horovod, in the environments that jobs run in; and what Horovod's own module
does with Keras 3."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import Python, epochs_of, final
from reports import ReportTaker

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "worker_images/examples"
SCRIPT = str(HERE / "script_keras.py")
BACKENDS = {"tensorflow": "tensorflow", "keras": "torch"}  # flavour -> what Keras runs on

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="KERAS IS NOT tested here: its environments take minutes to build. Run `make test-training`",
    ),
]


@pytest.fixture(params=BACKENDS)
def python(request: pytest.FixtureRequest, environment_of: Callable[[str], Path], tmp_path: Path) -> Python:
    return Python(environment_of(request.param), tmp_path, KERAS_BACKEND=BACKENDS[request.param])


@pytest.fixture
def tensorflow(environment_of: Callable[[str], Path], tmp_path: Path) -> Python:
    return Python(environment_of("tensorflow"), tmp_path)


@pytest.fixture(scope="session")
def keras_3(environment_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Keras 3 that TensorFlow 2.15 can run."""
    folder = tmp_path_factory.mktemp("keras3")
    pip = [environment_of("tensorflow") / "bin/pip", "install", "--quiet", "--no-deps", "--target", folder]
    subprocess.run(
        [*pip, "keras==3.0.5", "namex", "rich", "dm-tree", "markdown-it-py", "mdurl", "pygments"], check=True
    )
    return folder


def steps_of(folder: Path, attempt: int) -> list[int]:
    lines = (folder / f"seen-{attempt}-0.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_workers_learn_together_and_measuring_does_not_change_what(python: Python) -> None:
    """Two workers, measured and not, and one alone with the whole batch: the same steps, within rounding."""
    plain = epochs_of(python.run("horovod", 2, SCRIPT, str(python.folder), "--epochs", "2"))
    measured = epochs_of(python.run("horovod", 2, SCRIPT, str(python.folder), "--epochs", "2", **python.job))
    alone = epochs_of(python.run("alone", 1, SCRIPT, str(python.folder), "--epochs", "2"))
    assert measured == plain
    assert [epoch for epoch, _ in plain] == [0, 1]
    assert alone[-1][1] == pytest.approx(plain[-1][1], rel=1e-4)


def test_a_stopped_job_goes_on_with_other_workers_in_the_middle_of_an_epoch(python: Python) -> None:
    script = [SCRIPT, str(python.folder), "--epochs", "3"]
    whole = epochs_of(python.run("horovod", 2, *script))
    output = python.stop("horovod", 2, *script, "--pause", "0.05", after=30, **python.job)
    assert "with a checkpoint" in output
    output = python.run("horovod", 1, *script, **python.job, SCHEDULEARN_ATTEMPT="2")
    assert "with 1 workers" in output
    assert [epoch for epoch, _ in epochs_of(output)] == [1, 2]
    # The same samples in the same steps, whoever computes them.
    assert epochs_of(output)[-1][1] == pytest.approx(whole[-1][1], rel=1e-3)
    made = steps_of(python.folder, 1) + steps_of(python.folder, 2)
    stopped_in = steps_of(python.folder, 1)[-1] + 1  # the callback that writes it down comes after the one that ends
    assert Counter([*made, stopped_in]) == Counter(range(1, final(output)["step"] + 1))


def test_reports_tell_progress_step_times_and_metrics(python: Python) -> None:
    taker = ReportTaker()
    told = {"SCHEDULEARN_REPORT_URL": taker.url, "SCHEDULEARN_JOB_TOKEN": "j.x", "SCHEDULEARN_REPORT_INTERVAL": "0.5"}
    script = [SCRIPT, str(python.folder), "--pause", "0.01"]
    output = python.run("horovod", 2, *script, **python.job, **told, SCHEDULEARN_EPOCHS="2")
    taker.close()
    bodies = [body for _, _, body in taker.bodies]
    assert bodies[-1]["progress"] == {
        "epoch": 2,
        "epochs": 2,
        "position": 0,
        "steps": final(output)["step"],
        "epoch_samples": 1437,
    }
    seen = [each for body in bodies for each in body["observations"]]
    assert {(each["num_gpus"], each["num_nodes"]) for each in seen} == {(2, 1)}
    assert 32 in {each["atomic_batch"] for each in seen}
    assert all(0.01 < each["grad_time"] < each["iter_time"] < 10 for each in seen)
    names = Counter(metric["name"] for body in bodies for metric in body["metrics"])
    assert names["loss"] == names["val_accuracy"] == 2
    assert (bodies[-1]["batch"]["init"], bodies[-1]["batch"]["max"]) == (64, 64)


def test_the_noise_scale_is_what_all_gradients_together_say(python: Python) -> None:
    script = [SCRIPT, str(python.folder), "--frozen", "--epochs", "12"]
    found = final(python.run("horovod", 2, *script, **python.job))
    assert abs(found["phi"] / found["offline"] - 1) < 0.2, found


@pytest.mark.parametrize(("example", "flavour"), [("digits_keras", "tensorflow"), ("digits_keras3", "keras")])
@pytest.mark.parametrize("script", ["train.py", "train_sdk.py"])
def test_the_examples_learn(
    environment_of: Callable[[str], Path], tmp_path: Path, example: str, flavour: str, script: str
) -> None:
    output = Python(environment_of(flavour), tmp_path).run("horovod", 2, str(EXAMPLES / example / script))
    assert float(re.findall(r"final test accuracy ([0-9.]+)", output)[0]) >= 0.95


def test_data_of_the_scripts_own_begin_their_epoch_again(tensorflow: Python) -> None:
    script = [SCRIPT, str(tensorflow.folder), "--epochs", "3", "--own-data"]
    job = tensorflow.job
    tensorflow.stop("horovod", 2, *script, "--pause", "0.05", after=30, **job)
    output = tensorflow.run("horovod", 1, *script, **job, SCHEDULEARN_ATTEMPT="2")
    assert [epoch for epoch, _ in epochs_of(output)] == [1, 2]
    assert len(steps_of(tensorflow.folder, 2)) == 2 * 22


MISUSE = """
import keras, schedulearn.worker.keras as worker
x = keras.utils.to_categorical(range(64)); y = x[:, 0]
model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(1)])
def attempt(words, call):
    try:
        call()
    except (ValueError, TypeError) as error:
        assert words in str(error), error
    else:
        raise SystemExit("nothing said about " + words)
run = worker.Run(16)
model.compile("sgd", "mse")
attempt("run.optimizer", lambda: run.fit(model, x, y, epochs=1))
model.compile(run.optimizer(keras.optimizers.SGD(0.1)), "mse", steps_per_execution=2)
attempt("steps_per_execution", lambda: run.fit(model, x, y, epochs=1))
attempt("legacy", lambda: run.optimizer(keras.optimizers.legacy.SGD(0.1)))
"""


def test_what_would_train_wrongly_is_refused(tensorflow: Python) -> None:
    tensorflow.run("alone", 1, "-c", MISUSE)


TRAP = """
import {imported}numpy as np, tensorflow as tf, keras
import horovod.tensorflow.keras as hvd
hvd.init()
x = np.random.RandomState(hvd.rank()).randn(64, 4).astype("f4")
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
model.fit(x, x.sum(1), batch_size=16, epochs=1, verbose=0)
weights = hvd.allgather(tf.constant(model.get_weights()[0].reshape(1, -1))).numpy()
{after}
print("same", bool((weights == weights[0]).all()))
"""


def test_horovods_own_module_averages_with_keras_2_but_not_with_3_and_we_say_so(
    tensorflow: Python, keras_3: Path
) -> None:
    script = tensorflow.folder / "trap.py"
    script.write_text(TRAP.format(imported="", after=""))
    output = tensorflow.run("horovod", 2, str(script))
    assert output.count("same True") == 2
    assert "WARNING: with Keras" not in output
    tensorflow.env["PYTHONPATH"] += f":{keras_3}"
    output = tensorflow.run("horovod", 2, str(script))
    assert output.count("same False") == 2, "if this averages by now, take the warnings out"
    assert output.count("WARNING: with Keras 3.0.5, horovod.tensorflow.keras does NOT average") == 1
    script.write_text(TRAP.format(imported="", after="import schedulearn.worker.keras"))
    output = tensorflow.run("alone", 1, str(script))
    assert output.count("does NOT average") == 1


def test_the_sdk_averages_with_keras_3_on_tensorflow_too(tensorflow: Python, keras_3: Path) -> None:
    tensorflow.env.update(PYTHONPATH=f"{tensorflow.sdk}:{keras_3}", KERAS_BACKEND="tensorflow")
    script = [SCRIPT, str(tensorflow.folder), "--epochs", "2"]
    assert len(epochs_of(tensorflow.run("horovod", 2, *script, **tensorflow.job))) == 2
