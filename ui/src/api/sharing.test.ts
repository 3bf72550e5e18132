import { expect, test } from "vitest";
import { sharedById } from "./sharing";

const list = (items: { id: string; state: string }[], next: string | null = null) => ({
  pages: [{ items, next }],
  pageParams: [null],
});
const job = (id: string, state = "queued") => ({ id, state });

test("a job that moved down is the object that it was", () => {
  const before = list([job("b"), job("a")]);
  const after = sharedById(before, list([job("c"), job("b"), job("a")])) as typeof before;
  expect(after.pages[0]?.items.map(({ id }) => id)).toEqual(["c", "b", "a"]);
  expect(after.pages[0]?.items[1]).toBe(before.pages[0]?.items[0]);
  expect(after.pages[0]?.items[2]).toBe(before.pages[0]?.items[1]);
});

test("a job that changed is a new object, with what is new", () => {
  const before = list([job("a")]);
  const after = sharedById(before, list([job("a", "running")])) as typeof before;
  expect(after.pages[0]?.items).toEqual([job("a", "running")]);
  expect(before.pages[0]?.items).toEqual([job("a")]);
});

test("a list in which nothing changed is the list that it was", () => {
  const before = list([job("b"), job("a")], "further");
  expect(sharedById(before, list([job("b"), job("a")], "further"))).toBe(before);
});

test.each([
  ["another order", list([job("a"), job("b")])],
  ["one less", list([job("b")])],
  ["an end", list([job("b"), job("a")], "further")],
])("%s is seen", (_, after) => {
  expect(sharedById(list([job("b"), job("a")]), after)).toEqual(after);
});

test("what is read first is taken as it is", () => {
  const after = list([job("a")]);
  expect(sharedById(undefined, after)).toBe(after);
});
