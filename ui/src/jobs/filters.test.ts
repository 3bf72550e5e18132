import { expect, test } from "vitest";
import { choiceOf, filterOf, nextSort } from "./filters";

const NOW = new Date(2026, 10, 22, 14, 2).getTime();
const asked = (address: string) => filterOf(choiceOf(new URLSearchParams(address)), NOW);

test("failed, yesterday", () => {
  const filter = asked("show=failed&ended=yesterday&user=ada");
  expect(filter).toMatchObject({ states: ["failed", "timeout"], user: "ada", host: "", sort: "" });
  expect([filter.endedSince, filter.endedUntil]).toEqual([
    new Date(2026, 10, 21).getTime(),
    new Date(2026, 10, 22).getTime(),
  ]);
});

test("what the address says wrongly is not asked for", () => {
  expect(asked("show=x&ended=x&sort=x")).toEqual(asked(""));
  expect(asked("ended=24h").endedSince).toBe(NOW - 86_400_000);
});

test("a column's name turns the order around, then gives the usual one back", () => {
  expect(nextSort("name", "")).toBe("name");
  expect(nextSort("name", "name")).toBe("-name");
  expect(nextSort("name", "-name")).toBe("");
  expect(nextSort("duration", "name")).toBe("-duration");
});
