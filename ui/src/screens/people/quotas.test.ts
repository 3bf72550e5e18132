import { expect, test } from "vitest";
import type { Quota } from "../../api/types";
import {
  boundFieldsOf,
  boundsOf,
  fieldsOf,
  guaranteeIn,
  guaranteeText,
  NO_QUOTA,
  namesIn,
  specOf,
  usesOf,
} from "./quotas";

const quota: Quota = {
  user: "ada",
  gpus: 8,
  gpu_hours: null,
  waiting: 0,
  submissions: 60,
  cpu_jobs: 4,
  cpus: 2.5,
  memory_gib: null,
  priority: 70,
  max_duration: 86400,
  default_duration: 3600.5,
  weight: 1,
  used: { gpus: 6, gpu_hours: 12.5, waiting: 0, cpu_jobs: 1, cpus: 2, memory_gib: 3 },
};

test("what is bounded is told with its use; a bound of none is used up", () => {
  expect(usesOf(quota).map((use) => [use.name, use.used, use.bound, use.share])).toEqual([
    ["GPUs at once", "6", "8", 0.75],
    ["Jobs waiting", "0", "0", 1],
    ["Jobs without GPUs", "1", "4", 0.25],
    ["Processors of jobs without GPUs", "2", "2.5", 0.8],
  ]);
  expect(usesOf({ ...quota, used: null })).toEqual([]);
});

test("a quota goes through the form as it is; what is empty has no bound", () => {
  expect(specOf(fieldsOf(quota))).toEqual({
    gpus: 8,
    gpu_hours: null,
    waiting: 0,
    submissions: 60,
    cpu_jobs: 4,
    cpus: 2.5,
    memory_gib: null,
    priority: 70,
    max_duration: 86400,
    default_duration: 3600.5,
    weight: 1,
  });
  expect(specOf(NO_QUOTA)).toEqual({
    gpus: null,
    gpu_hours: null,
    waiting: null,
    submissions: null,
    cpu_jobs: null,
    cpus: null,
    memory_gib: null,
    priority: null,
    max_duration: null,
    default_duration: null,
    weight: 1,
  });
});

test("a group goes through the form as it is; its users are named once each", () => {
  const { user: _, weight: __, ...bounds } = quota;
  expect(
    boundsOf(boundFieldsOf({ ...bounds, name: "vision", members: ["ada"], guarantee: {}, borrowed: null })),
  ).toEqual({
    gpus: 8,
    gpu_hours: null,
    waiting: 0,
    submissions: 60,
    cpu_jobs: 4,
    cpus: 2.5,
    memory_gib: null,
    priority: 70,
    max_duration: 86400,
    default_duration: 3600.5,
  });
  expect(namesIn(" ada,ben, ,ada,")).toEqual(["ada", "ben"]);
});

test("a guarantee goes through the form as it is; nonsense is found", () => {
  const guarantee = { any: 8, a100: 4, "nvidia t4": 2 };
  expect(guaranteeIn(guaranteeText(guarantee))).toEqual(guarantee);
  expect(guaranteeIn("")).toEqual({});
  for (const wrong of ["a100", "0", "1.5", "-1", "a100=", "=4", "8, 9", "a100=1, a100=2"])
    expect(guaranteeIn(wrong)).toBeNull();
});
