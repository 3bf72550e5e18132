import { expect, test } from "vitest";
import { asFound, EXAMPLE } from "./presets";

test("the trial that was found becomes a job of its own, with its size", () => {
  const trial = { ...EXAMPLE, name: "net-2-12", priority: 10, max_duration: 3600, batch_size: 64 };
  expect(asFound(trial)).toEqual({ ...EXAMPLE, name: "net-2", batch_size: 64 });
});
