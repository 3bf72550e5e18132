import { expect, test } from "vitest";
import { labelsWithEnds, timeLabels, timeTicks } from "./ticks";

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
  const days = timeTicks(at(20, 7), at(23, 2), 86_400, 20_000);
  expect(labelsWithEnds(days, 86_400)).toEqual(
    ["07:00\n20 Nov", "22 Nov", "02:00\n23 Nov"].toSpliced(1, 0, "21 Nov"),
  );
});
