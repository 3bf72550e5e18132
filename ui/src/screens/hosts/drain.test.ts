import { expect, test } from "vitest";
import { fateOf, jobsOn } from "./drain";

const job = (name: string, elastic: boolean, run_seconds: number, ...hosts: string[]) => ({
  name,
  elastic,
  run_seconds,
  allocation: Object.fromEntries(hosts.map((host) => [host, 0])),
});

test("all jobs of a host are named, also those without GPUs and of several hosts; most to lose first", () => {
  const jobs = [
    job("elastic", true, 900, "a"),
    job("short", false, 60, "a", "b"),
    job("elsewhere", false, 60, "b"),
    job("long", false, 7200, "a"),
  ];
  expect(jobsOn("a", jobs).map(({ name }) => name)).toEqual(["long", "short", "elastic"]);
  expect(jobsOn("c", jobs)).toEqual([]);
});

test("what a job loses is told before it does", () => {
  expect(fateOf(job("", true, 900), 60)).toBe("moves at once, and continues from a checkpoint.");
  expect(fateOf(job("", false, 7200), 60)).toBe(
    "is stopped after 1 h and starts elsewhere. Without its own checkpoints it loses 2 h of work.",
  );
  expect(fateOf(job("", false, 45), 0)).toContain("is stopped at once and starts elsewhere.");
});
