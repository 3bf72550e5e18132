import { expect, test } from "vitest";
import type { Job } from "../../api/types";
import { entriesOf, keyOf, spanOf } from "./groups";

const job = (id: string, sweep: string | null = null) => ({ id, sweep }) as Job;
const rows = [job("a", "s"), job("b"), job("c", "s"), job("d", "single")];

test("runs of a sweep are one line, where its first is; a single run stays a job", () => {
  expect(entriesOf(rows, new Set()).map(keyOf)).toEqual(["sweep s", "b", "d"]);
});

test("an open sweep is followed by its runs", () => {
  const entries = entriesOf(rows, new Set(["s"]));
  expect(entries.map(keyOf)).toEqual(["sweep s", "a", "c", "b", "d"]);
  expect(entries.map((entry) => entry.job && entry.inGroup)).toEqual([undefined, true, true, false, false]);
});

test("a sweep lasts from its first start to its last end, once all have ended", () => {
  const run = (started_at: string | null, finished_at: string | null) => ({ started_at, finished_at }) as Job;
  expect(spanOf([run("2", "3"), run("1", "5")])).toEqual({ start: "1", end: "5" });
  expect(spanOf([run("2", "3"), run("1", null)])).toEqual({ start: "1", end: null });
  expect(spanOf([run(null, null)])).toEqual({ start: null, end: null });
});
