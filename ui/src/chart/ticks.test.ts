import { expect, test } from "vitest";
import { labelsWithEnds, numberLabel, numberTicks, timeLabels, timeTicks, valueLabels } from "./ticks";

const at = (day: number, hour: number) => new Date(2026, 10, day, hour).getTime() / 1000;

test("the date is told where a day begins", () => {
  const ticks = [at(21, 18), at(21, 21), at(22, 0), at(22, 3)];
  const day = "22 Nov";
  expect(timeLabels(ticks)).toEqual(["18:00", "21:00", `${day} 00:00`, "03:00"]);
  expect(timeLabels(ticks, (date, time) => `${time}\n${date}`)[2]).toBe(`00:00\n${day}`);
});

test("both ends of an axis are labelled, between them are round times", () => {
  const [from, to] = [at(21, 10) + 120, at(21, 11) + 1500];
  const ticks = timeTicks(from, to, 1800, 600);
  expect(labelsWithEnds(ticks, 1800)).toEqual(["10:02", "10:30", "11:00", "11:25"]);
  const days = timeTicks(at(20, 7), at(23, 2), 86_400, 800);
  expect(labelsWithEnds(days, 86_400)).toEqual(
    ["07:00\n20 Nov", "22 Nov", "02:00\n23 Nov"].toSpliced(1, 0, "21 Nov"),
  );
});

/** Width in pixels of letters in a wide font of 12 px. */
const LETTERS: Record<string, number> = {
  ":": 4.1,
  ",": 3.9,
  ".": 3.9,
  " ": 3.9,
  N: 9,
  O: 9.5,
  D: 9.3,
  A: 8.3,
};
const widthOf = (label: string) =>
  Math.max(
    ...label.split("\n").map((line) => [...line].reduce((sum, letter) => sum + (LETTERS[letter] ?? 7.7), 0)),
  );

/** Return the minimum gap between labels in px. The axis is `wide` px wide. */
function leastApart(ticks: number[], labels: string[], wide: number): number {
  const [min = 0, max = 0] = [ticks[0], ticks.at(-1)];
  const at = ticks.map((tick) => ((tick - min) / (max - min)) * wide);
  return Math.min(
    ...at
      .slice(1)
      .map(
        (x, index) =>
          x - (at[index] ?? 0) - (widthOf(labels[index] ?? "") + widthOf(labels[index + 1] ?? "")) / 2,
      ),
  );
}

const WIDTHS = Array.from({ length: 140 }, (_, at) => 150 + at * 11);
const SPACE_PX = 76; // the chart uses no smaller steps

test("labels of times stand apart at any width and over any span, the first and the last among them", () => {
  const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 21_600, 86_400, 604_800];
  for (const span of [24, 61, 400, 3_000, 3_700, 50_000, 90_000, 700_000, 3_000_000]) {
    for (const wide of WIDTHS) {
      const from = at(21, 7) + 47 * 60 + 36;
      const step = steps.find((each) => (each / span) * wide >= SPACE_PX) ?? span;
      const ticks = timeTicks(from, from + span, step, wide);
      const labels = labelsWithEnds(ticks, step);
      expect([ticks[0], ticks.at(-1)]).toEqual([from, from + span]);
      expect(leastApart(ticks, labels, wide)).toBeGreaterThanOrEqual(10);
      if (step < 86_400) expect(labels.every((label, index) => label !== labels[index + 1])).toBe(true);
    }
  }
});

test("labels of numbers stand apart at any width, the first and the last among them", () => {
  for (const last of [3, 19, 997, 26_300, 1_234_567, 98_765_432]) {
    for (const wide of WIDTHS) {
      const step = [1, 2, 2.5, 5, 10]
        .flatMap((each) => Array.from({ length: 9 }, (_, power) => each * 10 ** (power - 1)))
        .toSorted((a, b) => a - b)
        .find((each) => (each / last) * wide >= SPACE_PX);
      const ticks = numberTicks(0, last, step ?? last, wide);
      const labels = ticks.map((tick) => numberLabel(tick, step ?? last));
      expect([ticks[0], ticks.at(-1)]).toEqual([0, last]);
      expect(leastApart(ticks, labels, wide)).toBeGreaterThanOrEqual(10);
    }
  }
});

test("no two ticks of an axis have one label", () => {
  const tenths = (value: number) => `${Number(value.toFixed(1))} cores`;
  expect(valueLabels([0, 0.5, 1], tenths)).toEqual(["0 cores", "0.5 cores", "1 cores"]);
  expect(valueLabels([0, 0.005, 0.01, 0.015, 0.02], tenths)).toEqual(
    [0, 0.005, 0.01, 0.015, 0.02].map((value) => `${value} cores`),
  );
  const percent = (value: number) => `${Math.round(value)}%`;
  expect(valueLabels([20, 20.25, 20.5], percent)).toEqual(["20%", "20.25%", "20.5%"]);
});
