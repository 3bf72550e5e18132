import { expect, test } from "vitest";
import { byEnd, fewer, roomOf } from "./waiting";

const host = (id: string, states: string[], more = {}) =>
  ({ id, reachable: true, state: "active", gpus: states.map((state) => ({ state })), ...more }) as never;

test("room is where jobs may go, the most of it first", () => {
  const hosts = [
    host("a", ["used", "free"]),
    host("b", ["free", "free"]),
    host("gone", ["free"], { reachable: false }),
    host("closed", ["free"], { state: "cordoned" }),
  ];
  expect(roomOf(hosts)).toEqual([
    { host: "b", free: 2, gpus: 2 },
    { host: "a", free: 1, gpus: 2 },
  ]);
});

test("who ends first stands first, and who holds nothing is in nobody's way", () => {
  const job = (id: string, end: string | null, gpus = 1) =>
    ({ id, eta: end && { end }, gpus: Array(gpus).fill({}) }) as never;
  const found = byEnd([
    job("never", null),
    job("late", "2026-11-22T12:00:00Z"),
    job("soon", "2026-11-22T11:00:00Z"),
    job("holds none", "2026-11-22T10:00:00Z", 0),
  ]) as unknown as { id: string }[];
  expect(found.map(({ id }) => id)).toEqual(["soon", "late", "never"]);
});

test("half, and half of that", () => {
  expect([1, 2, 3, 8].map(fewer)).toEqual([[], [1], [1], [4, 2]]);
});
