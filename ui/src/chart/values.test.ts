import { expect, test } from "vitest";
import { csvOf, lastOf, nearestIndex, xText } from "./values";

test("the last value is the last that there is", () => {
  expect([lastOf([1, 2, null]), lastOf([null]), lastOf(undefined)]).toEqual([2, null, null]);
});

test("the crosshair finds the points that lie between those of other series", () => {
  expect(nearestIndex([null, 5, null, null], 2)).toBe(1);
  expect(nearestIndex([null, null], 0)).toBe(null);
});

test("a file for spreadsheets has times, holes and quoted names", () => {
  const file = csvOf(["Time", 'a, "b"'], [[0, 60], [1, null]], xText({ time: true })); // biome-ignore format: rows and columns
  expect(file).toBe('Time,"a, ""b"""\n1970-01-01T00:00:00.000Z,1\n1970-01-01T00:01:00.000Z,\n');
});

test("a file of bars names what each stands for, and no name is a formula", () => {
  const bins = [{ tick: "19 Nov", text: "19 Nov – 25 Nov" }];
  const text = xText({ bins });
  expect(csvOf(["Week", "=1+1"], [[0], [2]], text)).toBe("Week,'=1+1\n19 Nov – 25 Nov,2\n");
});
