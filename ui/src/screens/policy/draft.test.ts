import { expect, test } from "vitest";
import type { Policy } from "../../api/types";
import { draftOf, inputKind, isChanged, withAlgorithm, withParameter } from "./draft";

const policy = {
  algorithm: "fifo",
  metric: "default",
  params: { backfill: true },
  since: null,
  problem: "",
  available: [
    { name: "fifo", metrics: ["default"], description: "", parameters: {} },
    { name: "goodput", metrics: ["default", "speed", "cost"], description: "", parameters: {} },
    { name: "deadline", metrics: ["slack"], description: "", parameters: {} },
  ],
} satisfies Policy;

test("another algorithm and back is no change", () => {
  const there = withAlgorithm(policy, draftOf(policy), "goodput");
  expect(there).toEqual({ algorithm: "goodput", metric: "default", params: {} });
  expect(isChanged(policy, there)).toBe(true);
  expect(isChanged(policy, withAlgorithm(policy, there, "fifo"))).toBe(false);
});

test("a metric that the algorithm does not know is left behind", () => {
  expect(withAlgorithm(policy, draftOf(policy), "deadline").metric).toBe("slack");
});

test("a parameter taken back to its default is not sent", () => {
  const draft = withParameter(draftOf(policy), "backfill", undefined);
  expect(draft.params).toEqual({});
});

test("parameters are edited by their type", () => {
  expect(inputKind({ type: "bool", default: false, description: "", choices: [] })).toBe("switch");
  expect(inputKind({ type: "float | None", default: null, description: "", choices: [] })).toBe("number");
  expect(inputKind({ type: "str", default: "a", description: "", choices: ["a", "b"] })).toBe("choice");
  expect(inputKind({ type: "str", default: "x", description: "", choices: [] })).toBe("text");
});
