import { expect, test } from "vitest";
import { partsOf } from "./sentence";

test("ids of jobs are told from the text around them", () => {
  expect(
    partsOf("Jobs start in order of submission: it waits behind 0txbq3m8ka, which needs 2 GPUs."),
  ).toEqual(["Jobs start in order of submission: it waits behind ", "0txbq3m8ka", ", which needs 2 GPUs."]);
  expect(partsOf("It waits for job 0txbq3m8ka (running) to end.")).toHaveLength(3);
  expect(partsOf("Job 0txbq3m8ka ended as failed; job 0txbq3m8kb was deleted")).toEqual([
    "Job ",
    "0txbq3m8ka",
    " ended as failed; job ",
    "0txbq3m8kb",
    " was deleted",
  ]);
});

test("what only looks like an id stays text", () => {
  for (const text of [
    "",
    "1234567890 bytes",
    "a job referenced by none",
    "job 0txbq3m8ka-1-0",
    "job 0txbq3m8kabc",
  ])
    expect(partsOf(text)).toEqual([text]);
});
