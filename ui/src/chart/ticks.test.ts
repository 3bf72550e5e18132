import { expect, test } from "vitest";
import { timeLabels } from "./ticks";

const at = (day: number, hour: number) => new Date(2026, 10, day, hour).getTime() / 1000;

test("the date is told where a day begins", () => {
  const ticks = [at(21, 18), at(21, 21), at(22, 0), at(22, 3)];
  const day = "22 Nov";
  expect(timeLabels(ticks)).toEqual(["18:00", "21:00", `${day} 00:00`, "03:00"]);
  expect(timeLabels(ticks, (date, time) => `${time}\n${date}`)[2]).toBe(`00:00\n${day}`);
});
