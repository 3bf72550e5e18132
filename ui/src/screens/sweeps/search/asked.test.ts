import { expect, test } from "vitest";
import type { Job } from "../../../api/types";
import { jobText, NOTHING, toSearch } from "./asked";

const asked = { ...NOTHING, name: " nets ", job: '{"command": "train {batch_size}"}' };

test("what is typed becomes a search", () => {
  const all = { ...asked, gpus: "1, 2 4", batchSizes: "32,64", gpuTypes: "Tesla T4, A100 ", trials: 7 };
  expect(toSearch({ ...all, goal: "cost" })).toEqual({
    name: "nets",
    job: { command: "train {batch_size}" },
    gpus: [1, 2, 4],
    batch_sizes: [32, 64],
    gpu_types: ["Tesla T4", "A100"],
    goal: "cost",
    trials: 7,
  });
  expect(toSearch(asked)).not.toHaveProperty("trials");
});

test.each([
  [{ job: "{" }, /not valid JSON/],
  [{ job: "[]" }, /JSON object/],
  [{ gpus: "1, two" }, /Numbers of GPUs: two/],
  [{ batchSizes: "-3" }, /Batch sizes: -3/],
  [{ job: '{"env": {"TOKEN": "********"}}' }, /values of TOKEN are hidden/],
])("what can't be sent is told: %o", (change, message) => {
  expect(() => toSearch({ ...asked, ...change })).toThrow(message);
});

test("a job of before comes without what the search gives to its trials", () => {
  const job = {
    name: "old",
    command: "train",
    priority: 70,
    required_gpus: 8,
    max_duration: 60,
    deadline: null,
  };
  const rest = { max_restarts: 2, batch_size: 32, env: {}, labels: { team: "x" }, user: "ada", code: null };
  expect(JSON.parse(jobText({ ...job, ...rest } as unknown as Job))).toEqual({
    command: "train",
    batch_size: 32,
    labels: { team: "x" },
  });
});
