import { expect, test } from "vitest";
import { money, plainNumber, plainSentence, plural } from "./number";

test.each([
  [10_330, "10,330"],
  [1e21, "1,000,000,000,000,000,000,000"],
  [0.12345678, "0.1235"],
  [1.033e-7, "0.0000001033"],
  [-0.5, "-0.5"],
  [0, "0"],
])("%d is written without an exponent: %s", (value, text) => {
  expect(plainNumber(value)).toBe(text);
});

test("a sentence has numbers for people, and what only looks like one stays", () => {
  expect(plainSentence("goodput 1.033e+04 instead of 987.5 samples/s, at a noise scale of 2e-05")).toBe(
    "goodput 10,330 instead of 987.5 samples/s, at a noise scale of 0.00002",
  );
  const names = "job 2e10, image train:1.2e-05x, a3e+04";
  expect(plainSentence(names)).toBe(names);
});

test("one of a thing is one", () => {
  expect([plural(1, "GPU"), plural(0, "GPU"), plural(1, "line")]).toEqual(["1 GPU", "0 GPUs", "1 line"]);
});

test("a cost has two decimals until they no longer matter, and its currency", () => {
  expect([money(12.5, "EUR"), money(0, ""), money(12_345.6, "EUR"), money(null, "EUR")]).toEqual([
    "12.50 EUR",
    "0.00",
    "12,346 EUR",
    "–",
  ]);
});
