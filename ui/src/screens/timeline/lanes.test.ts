import { expect, test } from "vitest";
import type { Expected, Timeline } from "../../api/types";
import {
  barAt,
  barBeside,
  blockOf,
  filtered,
  type Lane,
  lanesOf,
  moved,
  rowsOf,
  showing,
  stateOf,
  ticksOf,
  waitingLanes,
  zoomed,
} from "./lanes";

const iso = (s: number) => new Date(s * 1000).toISOString();
const span = (
  job: string,
  lanes: number[],
  begin: number,
  end: number | null,
  became: Timeline["spans"][number]["end"] = end === null ? null : "succeeded",
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
  end: became,
});
const lane = (index: number, present = true, host = "h") => ({ uuid: `g${index}`, host, index, present });
const timeline: Timeline = {
  since: iso(0),
  until: iso(100),
  lanes: [lane(0), lane(1), lane(2, false), lane(3, false)],
  spans: [span("late", [0], 50, null), span("early", [0, 1, 2], 10, 40)],
  complete: true,
  windows: [],
};
const expected = (job: string, start: number | null, end: number | null): Expected => ({
  job,
  name: job,
  user: "ada",
  gpus: 2,
  submitted_at: iso(20),
  start: start === null ? null : iso(start),
  end: end === null ? null : iso(end),
  latest: null,
  basis: "guess",
});
const jobs = (found: Lane[]) => found.map((each) => each.bars.map((bar) => bar.job));

test("a job of several GPUs has a bar on each, and GPUs that are gone stay while they have a past", () => {
  const lanes = lanesOf(timeline);
  expect(lanes.map((each) => [each.index, each.bars.map((bar) => bar.job)])).toEqual([
    [0, ["early", "late"]],
    [1, ["early"]],
    [2, ["early"]],
  ]);
});

test("what is under the pointer is what ran there and then, or is expected to", () => {
  const [first] = lanesOf(timeline, [expected("late", null, 150)]);
  if (!first) throw new Error("no lane");
  expect(barAt(first, 20_000, 100_000)?.job).toBe("early");
  expect(barAt(first, 45_000, 100_000)).toBeUndefined();
  expect(barAt(first, 99_000, 100_000)?.job).toBe("late");
  expect(barAt(first, 149_000, 100_000)?.job).toBe("late");
  expect(barAt(first, 151_000, 100_000)).toBeUndefined();
});

test("a job that waits has a lane of its own if its start is known; one that runs has none", () => {
  const lanes = waitingLanes([expected("runs", null, 150), expected("next", 120, 180)]);
  expect(jobs(lanes)).toEqual([["next"]]);
  const bar = lanes[0]?.bars[0];
  expect([bar?.claimed, bar?.started, bar?.expected]).toEqual([20_000, 120_000, 180_000]);
  expect(bar && stateOf(bar)).toBe("waiting");
});

test("a filter leaves what it names: by job, by host, by state", () => {
  const lanes = lanesOf({
    ...timeline,
    lanes: [lane(0), lane(1), lane(0, true, "other")],
    spans: [span("late", [0], 50, null), span("broken", [1, 2], 10, 40, "failed")],
  });
  expect(jobs(filtered(lanes, "", ""))).toEqual([["late"], ["broken"], ["broken"]]);
  expect(jobs(filtered(lanes, "LAT", ""))).toEqual([["late"]]);
  expect(jobs(filtered(lanes, "other", ""))).toEqual([["broken"]]);
  expect(jobs(filtered(lanes, "", "failed"))).toEqual([["broken"], ["broken"]]);
  expect(filtered(lanes, "late", "failed")).toEqual([]);
});

test("adjoining rows of a bar are a block, within a host", () => {
  const lanes = rowsOf(
    lanesOf({
      ...timeline,
      lanes: [lane(0), lane(1), lane(2), lane(0, true, "i"), lane(1, true, "i")],
      spans: [span("wide", [0, 1, 3, 4], 10, 40), span("other", [2], 10, 40)],
    }),
  );
  const wide = lanes[0]?.bars[0];
  if (!wide) throw new Error("no bar");
  expect(blockOf(lanes, wide, 0)).toEqual([0, 1]);
  expect(blockOf(lanes, wide, 1)).toEqual([0, 1]);
  expect(blockOf(lanes, wide, 4)).toEqual([3, 4]);
});

test("keys go along a lane, and to the nearest in time on the next one that has any", () => {
  const lanes = rowsOf(
    lanesOf({
      ...timeline,
      lanes: [lane(0), lane(1), lane(2)],
      spans: [
        span("c", [2], 52, 60),
        span("b", [0], 50, 60),
        span("a2", [2], 11, 20),
        span("a", [0], 10, 40),
      ],
    }),
  );
  const first = barBeside(lanes, 0, null, "ArrowDown");
  expect([first?.row, first?.bar.job]).toEqual([0, "b"]);
  const before = barBeside(lanes, 0, first?.bar ?? null, "ArrowLeft");
  expect(before?.bar.job).toBe("a");
  const below = barBeside(lanes, 0, before?.bar ?? null, "ArrowDown");
  expect([below?.row, below?.bar.job]).toEqual([2, "a2"]);
  expect(barBeside(lanes, 2, below?.bar ?? null, "ArrowDown")?.bar.job).toBe("a2");
});

test("zooming keeps the point under the pointer where it is", () => {
  expect(zoomed({ from: 0, to: 1_000_000 }, 0.5, 0.2)).toEqual({ from: 100_000, to: 600_000 });
  const least = zoomed({ from: 0, to: 12_000 }, 0.1);
  expect(least.to - least.from).toBe(10_000);
});

test("panning keeps the width, and goes only where what is wanted is not in view", () => {
  expect(moved({ from: 0, to: 100 }, 0.25)).toEqual({ from: 25, to: 125 });
  expect(showing({ from: 0, to: 100 }, 60)).toEqual({ from: 0, to: 100 });
  expect(showing({ from: 0, to: 100 }, 500)).toEqual({ from: 450, to: 550 });
});

test("ticks are round and not too many", () => {
  const ticks = ticksOf({ from: 0, to: 3_600_000 }, 8);
  expect(ticks.length).toBeLessThanOrEqual(8);
  expect(ticks.every((tick) => tick % 600 === 0)).toBe(true);
});
