import { expect, test } from "vitest";
import { busyOverTime } from "./busy";

const at = (s: number) => new Date(s * 1000).toISOString();
const span = (begin: number, end: number | null, gpus: number) => ({
  claimed_at: at(begin),
  finished_at: end === null ? null : at(end),
  lanes: Array.from({ length: gpus }, (_, lane) => lane),
});

test("a job that held half of a part counts half", () => {
  const [x, held] = busyOverTime([span(0, 15, 2)], 0, 40_000, 4);
  expect(x).toEqual([5, 15, 25, 35]);
  expect(held).toEqual([2, 1, 0, 0]);
});

test("what began before and what still runs is cut to the time that is shown", () => {
  const [, held] = busyOverTime([span(-100, 10, 1), span(30, null, 4), span(50, 60, 8)], 0, 40_000, 4);
  expect(held).toEqual([1, 0, 0, 4]);
});
