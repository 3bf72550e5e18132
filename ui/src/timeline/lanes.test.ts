import { expect, test } from "vitest";
import type { Timeline } from "../api/types";
import { barAt, lanesOf, moved, ticksOf, zoomed } from "./lanes";

const iso = (s: number) => new Date(s * 1000).toISOString();
const span = (
  job: string,
  lanes: number[],
  begin: number,
  end: number | null,
): Timeline["spans"][number] => ({
  job,
  name: job,
  user: "",
  attempt: 1,
  rank: 0,
  lanes,
  claimed_at: iso(begin),
  started_at: iso(begin + 1),
  finished_at: end === null ? null : iso(end),
  outcome: "",
});
const lane = (index: number, present = true) => ({ uuid: `g${index}`, host: "h", index, present });
const timeline: Timeline = {
  since: iso(0),
  until: iso(100),
  lanes: [lane(0), lane(1), lane(2, false), lane(3, false)],
  spans: [span("late", [0], 50, null), span("early", [0, 1, 2], 10, 40)],
  complete: true,
};

test("a job of several GPUs has a bar on each, and GPUs that are gone stay while they have a past", () => {
  const lanes = lanesOf(timeline);
  expect(lanes.map((each) => [each.index, each.bars.map((bar) => bar.job)])).toEqual([
    [0, ["early", "late"]],
    [1, ["early"]],
    [2, ["early"]],
  ]);
});

test("what is under the pointer is what ran there and then", () => {
  const [first] = lanesOf(timeline);
  if (!first) throw new Error("no lane");
  expect(barAt(first, 20_000, 100_000)?.job).toBe("early");
  expect(barAt(first, 45_000, 100_000)).toBeUndefined();
  expect(barAt(first, 99_000, 100_000)?.job).toBe("late");
  expect(barAt(first, 101_000, 100_000)).toBeUndefined();
});

test("zooming keeps the point under the pointer where it is", () => {
  expect(zoomed({ from: 0, to: 1_000_000 }, 0.5, 0.2)).toEqual({ from: 100_000, to: 600_000 });
  const least = zoomed({ from: 0, to: 12_000 }, 0.1);
  expect(least.to - least.from).toBe(10_000);
});

test("panning keeps the width", () => {
  expect(moved({ from: 0, to: 100 }, 0.25)).toEqual({ from: 25, to: 125 });
});

test("ticks are round and not too many", () => {
  const ticks = ticksOf({ from: 0, to: 3_600_000 }, 8);
  expect(ticks.length).toBeLessThanOrEqual(8);
  expect(ticks.every((tick) => tick % 600 === 0)).toBe(true);
});
