import { expect, test } from "vitest";
import { binned, linesOf, MOST_LINES } from "./telemetry";

const metrics = ["utilization", "memory_bytes"];
const gpu = (index: number, points: (number | null)[][], host = "h") => ({
  uuid: `${host}${index}`,
  index,
  host,
  points,
});

test("points of hosts that tell at different moments meet on one axis", () => {
  const found = linesOf(
    {
      metrics,
      step_s: 1,
      gpus: [
        gpu(0, [
          [100.1, 10, 1],
          [101.1, 20, 1],
        ]),
        gpu(3, [[100.9, 50, 1]], "k"),
      ],
    },
    "utilization",
  );
  expect(found).toEqual({ names: ["GPU 0 of h", "GPU 3 of k"], data: [[100], [15], [50]] });
});

test("what was not measured is a gap, not a zero", () => {
  const found = linesOf(
    {
      metrics,
      step_s: 60,
      gpus: [
        gpu(0, [
          [0, 10, null],
          [60, null, 5],
          [600, 30, 6],
        ]),
      ],
    },
    "utilization",
  );
  expect(found.names).toEqual(["GPU 0"]);
  expect(found.data).toEqual([
    [0, 300, 600],
    [10, null, 30],
  ]);
});

test("memory is drawn in GiB, for the sake of its ticks", () => {
  const telemetry = { metrics, step_s: 60, gpus: [gpu(0, [[0, 1, 3 * 2 ** 29]])] };
  expect(linesOf(telemetry, "memory_bytes").data).toEqual([[0], [1.5]]);
});

test("many GPUs are shown by their mean, lowest and highest", () => {
  const gpus = Array.from({ length: MOST_LINES + 1 }, (_, index) => gpu(index, [[0, index * 10, 1]]));
  expect(linesOf({ metrics, step_s: 60, gpus }, "utilization")).toEqual({
    names: ["mean", "lowest", "highest"],
    data: [[0], [40], [0], [80]],
  });
});

test("one GPU is drawn in equal parts of time, with gaps where nothing was measured", () => {
  const telemetry = {
    metrics: ["utilization"],
    gpus: [
      {
        uuid: "u",
        host: "h",
        index: 1,
        type: "t",
        memory_bytes: 0,
        points: [
          [101, 10],
          [104, 30],
          [117, 50],
          [50, 99],
        ],
      },
    ],
  } as unknown as Parameters<typeof binned>[0];
  expect(binned(telemetry, 1, "utilization", 120, 20, 4)).toEqual([20, null, null, 50]);
  expect(binned(telemetry, 2, "utilization", 120, 20, 2)).toEqual([null, null]);
});
