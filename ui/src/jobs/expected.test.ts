import { expect, test } from "vitest";
import type { Eta } from "../api/types";
import { expectedEnd, neverRuns } from "./Expected";

const nothing: Eta = {
  start: null,
  end: null,
  earliest: null,
  latest: null,
  not_before: null,
  basis: "guess",
  awaits_image: false,
};

test("a job never runs if neither a time nor a reason to wait for one is told", () => {
  expect(neverRuns(nothing)).toBe(true);
  expect(neverRuns(null)).toBe(false);
  expect(neverRuns({ ...nothing, awaits_image: true })).toBe(false);
  expect(neverRuns({ ...nothing, not_before: "2026-12-24T18:00:00Z" })).toBe(false);
  expect(neverRuns({ ...nothing, start: "2026-12-24T18:00:00Z" })).toBe(false);
});

test("an end that is predicted is never told as a fact", () => {
  const now = Date.parse("2026-12-24T12:00:00Z");
  const end = "2026-12-24T12:30:00Z";
  const at = (basis: Eta["basis"]) => expectedEnd({ end, basis }, now).replace(/\d\d:\d\d/, "TIME");
  expect(at("progress")).toBe("expected to end about TIME");
  expect(at("family")).toBe("expected to end about TIME");
  expect(at("guess")).toBe("may end about TIME, a guess");
  expect(expectedEnd(nothing, now)).toBe("");
});
