import { expect, test } from "vitest";
import { canCancel, GROUPS, groupCount, holdingOf, isGroup, isOver, LOOKS } from "./states";

test("every state is in exactly one group", () => {
  const grouped = Object.values(GROUPS).flatMap((group) => group.states);
  expect(grouped.toSorted()).toEqual(Object.keys(LOOKS).toSorted());
});

test("counts of a group are those of its states", () => {
  const counts = { queued: 3, running: 2, pulling: 1, failed: 4, timeout: 1 };
  expect(groupCount("running", counts)).toBe(2);
  expect(groupCount("waiting", counts)).toBe(4);
  expect(groupCount("failed", counts)).toBe(5);
  expect(groupCount("all", counts)).toBe(11);
});

test("what has ended or is ending can't be cancelled", () => {
  expect(canCancel("queued")).toBe(true);
  expect(canCancel("stopping")).toBe(false);
  expect(canCancel("timeout")).toBe(false);
  expect(isOver("stopping")).toBe(false);
});

test("a made-up filter in the address is no group", () => {
  expect(isGroup("toString")).toBe(false);
  expect(isGroup("waiting")).toBe(true);
});

test("a job that waits is held, an elastic one that runs is paused", () => {
  const job = { state: "running", elastic: true, held_at: null, attempt: 1 } as const;
  expect(holdingOf(job)).toBe("pause");
  expect(holdingOf({ ...job, elastic: false })).toBe(null);
  expect(holdingOf({ ...job, elastic: false, state: "queued" })).toBe("hold");
  const held = { ...job, held_at: "2026-11-27T12:00:00Z" };
  expect(holdingOf({ ...held, state: "resizing" })).toBe("resume");
  expect(holdingOf({ ...held, state: "queued", attempt: 0 })).toBe("release");
  for (const state of ["stopping", "succeeded"] as const) expect(holdingOf({ ...held, state })).toBe(null);
});
