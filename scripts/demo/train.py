"""What `make demo` shows at once: a small network learns a circle, in plain Python, so that nothing is built for it."""

import json
import math
import os
import random
import time

random.seed(0)
points = [(random.uniform(-1, 1), random.uniform(-1, 1)) for _ in range(400)]
samples = [(x, y, 1.0 if x * x + y * y < 0.5 else 0.0) for x, y in points]
units = [[random.gauss(0, 2) for _ in range(3)] + [random.gauss(0, 0.5)] for _ in range(12)]
bias = 0.0


def answer(x, y):
    hidden = [math.tanh(a * x + b * y + c) for a, b, c, _ in units]
    total = bias + sum(unit[3] * value for unit, value in zip(units, hidden, strict=True))
    return hidden, 1 / (1 + math.exp(-total))


for epoch in range(1, 61):
    began, loss, right = time.monotonic(), 0.0, 0
    for x, y, wanted in random.sample(samples, len(samples)):
        hidden, found = answer(x, y)
        loss -= math.log(max(1e-9, found if wanted else 1 - found))
        right += (found > 0.5) == (wanted > 0.5)
        error = 0.2 * (wanted - found)
        bias += error
        for unit, value in zip(units, hidden, strict=True):
            slope = error * unit[3] * (1 - value * value)
            unit[0] += slope * x
            unit[1] += slope * y
            unit[2] += slope
            unit[3] += error * value
    print(f"epoch {epoch}/60: loss {loss / len(samples):.3f}, accuracy {right / len(samples):.3f}", flush=True)
    time.sleep(max(0.0, 1 - (time.monotonic() - began)))  # for those who watch

with open(os.path.join(os.environ.get("SCHEDULEARN_OUTPUT_DIR", "."), "model.json"), "w") as file:
    json.dump({"units": units, "bias": bias}, file)
