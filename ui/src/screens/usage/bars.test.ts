import { expect, test } from "vitest";
import type { Usage } from "../../api/types";
import { binsOf, capacityOf, costOf, partsOf, shareOf } from "./bars";

const day = (text: string) => Date.parse(`${text}T00:00:00Z`);
const used = (day: string, user: string, gpu_hours: number, cost: number | null = null): Usage => ({
  day,
  user,
  label: "",
  gpu_hours,
  energy_kwh: 0,
  cost,
  currency: "",
  jobs: 1,
  deadlines: 0,
  deadlines_met: 0,
});

test("a week has a bar a day, a quarter a bar a week", () => {
  const week = binsOf(day("2026-11-28"), day("2026-12-04"));
  expect(week.each).toBe("day");
  expect(week.bins.map(({ tick }) => tick)).toEqual(
    "28 Nov,29 Nov,30 Nov,1 Dec,2 Dec,3 Dec,4 Dec".split(","),
  );
  expect([week.at("2026-11-28"), week.at("2026-12-04"), week.at("2026-11-27")]).toEqual([0, 6, -1]);

  const quarter = binsOf(day("2026-09-01"), day("2026-11-29"));
  expect(quarter.each).toBe("week");
  expect(quarter.bins).toHaveLength(13);
  expect(quarter.bins[0]).toEqual({ tick: "1 Sep", text: "1 Sep – 7 Sep" });
  expect(quarter.bins.at(-1)?.text).toBe("24 Nov – 29 Nov");
  expect([quarter.at("2026-09-07"), quarter.at("2026-09-08")]).toEqual([0, 1]);
});

test("a bar is made of users, the largest first", () => {
  const bins = binsOf(day("2026-11-22"), day("2026-11-23"));
  const rows = [used("2026-11-22", "ann", 1), used("2026-11-22", "ben", 5), used("2026-11-23", "ann", 2)];
  const { series, data } = partsOf(
    [...rows, used("2026-11-21", "cy", 9), used("2026-11-23", "", 0)],
    "user",
    bins,
  );
  expect(series).toEqual([{ name: "ben" }, { name: "ann" }]);
  expect(data).toEqual([
    [0, 1],
    [5, null],
    [1, 2],
  ]);
});

test("many users share a part, and nothing is lost", () => {
  const bins = binsOf(day("2026-11-23"), day("2026-11-23"));
  const rows = Array.from({ length: 20 }, (_, at) => used("2026-11-23", `user-${at}`, 20 - at));
  const { series, data } = partsOf(rows, "user", bins);
  expect(series).toHaveLength(8);
  expect(series.at(-1)).toEqual({ name: "13 others", muted: true });
  expect(data.slice(1).reduce((sum, [value]) => sum + (value ?? 0), 0)).toBe(210);
});

test("what is not held is idle, and never less than nothing", () => {
  const bins = binsOf(day("2026-11-21"), day("2026-11-23"));
  const days = [
    { day: "2026-11-22", gpu_hours: 96, held_gpu_hours: 24 },
    { day: "2026-11-23", gpu_hours: 10, held_gpu_hours: 12 },
  ];
  expect(capacityOf(days, bins)).toEqual([
    [0, 1, 2],
    [null, 24, 12],
    [null, 72, 0],
  ]);
  expect(shareOf(days)).toEqual({ held: 36, idle: 72, share: 1 / 3 });
  expect(shareOf([]).share).toBeNull();
});

test("a cost is known where that of each row is", () => {
  expect(costOf([used("", "ann", 1, 2), used("", "ben", 1, 3)])).toBe(5);
  expect(costOf([used("", "ann", 1, 2), used("", "ben", 1)])).toBeNull();
  expect(costOf([])).toBeNull();
});
