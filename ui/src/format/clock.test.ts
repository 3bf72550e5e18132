import { expect, test } from "vitest";
import { Clock } from "./clock";

const HOUR_MS = 3_600_000;
const NOON = Date.UTC(2026, 10, 22, 12);
const written = (at: number) => new Date(at).toUTCString();

test("a machine whose clock is wrong shows the service's time", () => {
  let own = NOON + 3 * HOUR_MS;
  const clock = new Clock(() => own);
  expect(clock.now()).toBe(own);
  clock.learn(written(NOON), own, own + 200);
  expect(Math.abs(clock.now() - NOON)).toBeLessThan(1_500);
  own += HOUR_MS;
  expect(Math.abs(clock.now() - NOON - HOUR_MS)).toBeLessThan(1_500);
  own = NOON + 2 * HOUR_MS; // the clock is corrected
  clock.learn(written(own), own, own + 200);
  expect(clock.now()).toBe(own);
});

test("clocks that hardly differ are the same: the time does not jump with each answer", () => {
  const clock = new Clock(() => NOON);
  for (const off of [-3_000, 0, 2_000, 4_000]) {
    clock.learn(written(NOON + off), NOON, NOON + 900);
    expect(clock.now()).toBe(NOON);
  }
});

test("what says too little of the time is left out", () => {
  const clock = new Clock(() => NOON);
  clock.learn(null, NOON, NOON);
  clock.learn("nonsense", NOON, NOON);
  clock.learn(written(NOON - HOUR_MS), NOON - HOUR_MS, NOON); // a reply after an hour: the machine slept
  expect(clock.now()).toBe(NOON);
});
