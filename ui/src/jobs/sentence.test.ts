import { expect, test } from "vitest";
import { partsOf, withNames } from "./sentence";

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

test("each sentence of a queue has names where they are known", () => {
  const names = { "0txbq3m8ka": "resnet", "0txbq3m8kb": "bert" };
  for (const [told, expected] of [
    [
      "It may run for longer than 0txbq3m8ka, and would then hold up 0txbq3m8kb.",
      "longer than resnet, and would then hold up bert.",
    ],
    ["GPUs are reserved for it: it starts when 0txbq3m8ka ends.", "it starts when resnet ends."],
    ["It shrinks from 2 GPUs to 1 to make room for 0txbq3m8kb.", "make room for bert."],
    [
      "They are reserved for it from the end of 0txbq3m8ka, which is expected in 2 s.",
      "the end of resnet, which",
    ],
    ["It gives up its 2 GPUs to 0txbq3m8kb, which has a higher priority.", "its 2 GPUs to bert, which"],
    ["It waits behind 0txbq3m8kc.", "It waits behind 0txbq3m8kc."],
  ] as const)
    expect(withNames(told, names)).toContain(expected);
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
