import { expect, test } from "vitest";
import type { Advice, AdviceOption, AdviceSpec } from "../../api/types";
import { EMPTY, toBody } from "../../jobs/values";
import {
  basisOf,
  batchesAround,
  faultsIn,
  hasObjective,
  isTaken,
  missed,
  NO_QUESTION,
  nameOf,
  numbersIn,
  placesOf,
  specOf,
  taken,
  textOf,
  usualGpus,
} from "./advice";

const JOB = { name: "n", type: "t", container_image: "i", command: "c", required_gpus: 1 };

function option(changes: Partial<AdviceOption> = {}): AdviceOption {
  const estimate = { value: 100, low: 90, high: 110 };
  return {
    batch_size: 64,
    required_gpus: 2,
    gpu_type: "A100",
    wait_time: 0,
    run_time: estimate,
    response_time: estimate,
    metric: { value: 0.9, low: 0.89, high: 0.91 },
    cost: 1,
    meets: false,
    ...changes,
  };
}

test("numbers have commas or blanks between them, and nothing else", () => {
  expect(numbersIn("32, 64 128,")).toEqual([32, 64, 128]);
  expect(numbersIn(" ")).toEqual([]);
  expect(numbersIn("32; 64")).toBeNull();
  expect(numbersIn("-1")).toBeNull();
  expect(numbersIn("1.5")).toBeNull();
});

test("what is compared where nothing is asked", () => {
  expect(batchesAround(64)).toEqual([32, 64, 128]);
  expect(batchesAround(1)).toEqual([1, 2]);
  expect(batchesAround(null)).toEqual([]);
  expect([0, 1, 6, 8].map(usualGpus)).toEqual([[], [1], [1, 2, 4, 6], [1, 2, 4, 8]]);
});

test("a question is sent as the API takes it", () => {
  expect(specOf(NO_QUESTION, JOB)).toEqual({
    job: JOB,
    metric: { name: "accuracy", goal: "max" },
    batch_sizes: [],
    gpus: [],
  });
  const within = { ...NO_QUESTION, done: "within", within: 2, unit: "3600", gpus: "1,2" } as const;
  expect(
    specOf({ ...within, metric: " loss ", goal: "min", target: 0.5 }, { ...JOB, batch_size: 64 }),
  ).toEqual({
    job: { ...JOB, batch_size: 64 },
    max_response_time: 7200,
    metric: { name: "loss", goal: "min" },
    target: 0.5,
    batch_sizes: [32, 64, 128],
    gpus: [1, 2],
  });
  expect(specOf(NO_QUESTION, { ...JOB, name: "" }).job).not.toHaveProperty("name");
  const by = { ...NO_QUESTION, done: "by", by: "2030-01-01T12:00", batches: "8" } as const;
  expect(specOf(by, { ...JOB, batch_size: 64 })).toMatchObject({
    deadline: new Date("2030-01-01T12:00").toISOString(),
    batch_sizes: [8],
  });
});

test("what is missing is said at its field", () => {
  expect(faultsIn(NO_QUESTION)).toEqual({});
  expect(Object.keys(faultsIn({ ...NO_QUESTION, done: "within", gpus: "many" }))).toEqual(["gpus", "within"]);
  expect(Object.keys(faultsIn({ ...NO_QUESTION, done: "by" }))).toEqual(["by"]);
});

test("an answer stays while only what it chooses is changed", () => {
  const asked = textOf(NO_QUESTION, JOB);
  expect(textOf(NO_QUESTION, { ...JOB, name: "x", required_gpus: 4, batch_size: 8, gpu_type: "A" })).toBe(
    asked,
  );
  expect(textOf(NO_QUESTION, { ...JOB, command: "other" })).not.toBe(asked);
  expect(textOf({ ...NO_QUESTION, target: 1 }, JOB)).not.toBe(asked);
});

test("an objective is a time, a deadline of the job's own, or a target", () => {
  expect(hasObjective({ job: JOB })).toBe(false);
  expect(hasObjective({ job: { ...JOB, deadline: "2030-01-01T12:00" } })).toBe(true);
  expect(hasObjective({ job: JOB, max_response_time: 1 })).toBe(true);
  expect(hasObjective({ job: JOB, target: 0 })).toBe(true);
});

test("why a configuration misses the objective", () => {
  const spec: AdviceSpec = { job: JOB, target: 0.95, max_response_time: 100 };
  expect(missed(option({ meets: true }), spec)).toBe("");
  expect(missed(option(), spec)).toBe("accuracy too low, too late");
  expect(missed(option(), { ...spec, max_response_time: 110 })).toBe("accuracy too low");
  expect(missed(option(), { ...spec, target: 0.9 })).toBe("too late");
  expect(missed(option({ metric: null }), { job: JOB, target: 0.9 })).toBe("accuracy unknown");
  expect(missed(option(), { job: JOB, target: 0.5, metric: { name: "loss", goal: "min" } })).toBe(
    "loss too high",
  );
  expect(missed(option(), { job: JOB, deadline: "2030-01-01T12:00" })).toBe("too late");
});

test("a configuration that is taken is the job's size, which stays", () => {
  const elastic = { ...EMPTY, elastic: true, min_gpus: 1, max_gpus: 8, resize: "in-place", batch_size: 16 };
  expect(isTaken(option(), toBody(elastic))).toBe(false);
  const values = { ...elastic, ...taken(option()) };
  expect(toBody(values)).toMatchObject({ required_gpus: 2, batch_size: 64, gpu_type: "A100" });
  for (const key of ["elastic", "min_gpus", "max_gpus", "resize"])
    expect(toBody(values)).not.toHaveProperty(key);
  expect(isTaken(option(), toBody(values))).toBe(true);
  expect(taken(option({ batch_size: null }))).not.toHaveProperty("batch_size");
  expect(nameOf(option())).toBe("2 GPUs of A100, batch 64");
});

test("what an answer rests on", () => {
  const advice = {
    samples: 12,
    time_models: [{ model: "linear", r2: 0.987, error: 1 }],
    metric_models: [],
  } as unknown as Advice;
  expect(basisOf(advice, "accuracy")).toMatch(
    /^From 12 finished jobs of its family; time by linear \(R² 0.99 /,
  );
});

test("each message of a refusal goes to its field", () => {
  const fields = {
    "job.command": "job.command: is missing",
    "batch_sizes.0": "too small",
    max_response_time: "must be above 0",
  };
  expect(placesOf({ message: "all", code: "invalid", fields })).toEqual({
    own: { batches: "too small", within: "must be above 0" },
    job: { command: "is missing" },
    rest: "",
    noHistory: false,
  });
  const none = { message: "none", code: "no_history", fields: { job: "none" } };
  expect(placesOf(none)).toMatchObject({ rest: "none", noHistory: true });
  expect(placesOf(new Error("busy"))).toMatchObject({ rest: "busy", own: {}, job: {} });
});
