import { expect, test } from "vitest";
import { exitMeaning, placesOf, whyOf } from "./failures";

test("exit codes that the system gives have a meaning", () => {
  expect(exitMeaning(137)).toBe("exit 137: killed, often for memory");
  expect(exitMeaning(3)).toBe("exit 3");
});

test("where it ran, a host once", () => {
  const gpus = [
    { uuid: "b", host: "daphne", index: 4 },
    { uuid: "a", host: "daphne", index: 3 },
    { uuid: "c", host: "echo", index: 0 },
  ];
  expect(placesOf(gpus)).toBe("daphne GPU 3, 4; echo GPU 0");
});

test("the line of the log goes before the sentence that every failure has", () => {
  const message = "The command ended with exit code 1.";
  const failed = { state: "failed", message, pull_percent: null } as const;
  expect(whyOf({ ...failed, failure: { exit_code: 1, line: "KeyError: 'x'" } })).toBe(
    "exit 1 · KeyError: 'x'",
  );
  expect(whyOf({ ...failed, failure: { exit_code: 1, line: "" } })).toBe(message);
  expect(whyOf({ ...failed, state: "succeeded", failure: null })).toBe("");
});
