import { expect, test } from "vitest";
import type { JobDetail, Profile } from "../../api/types";
import { outcomesOf, specRows } from "./compare";

const profile = (points: number[][]) => ({ metrics: { loss: points } }) as unknown as Profile;
const job = (more: object) =>
  ({
    state: "succeeded",
    run_seconds: 60,
    gpu_seconds: 7200,
    restarts: 0,
    energy_kwh: 1.234,
    cost: 4.5,
    currency: "EUR",
    env: {},
    labels: {},
    ...more,
  }) as unknown as JobDetail;

test("what differs is marked, also within the environment", () => {
  const rows = specRows([job({ name: "a", env: { LR: "0.1" } }), job({ name: "a", env: { LR: "0.2" } })]);
  expect(rows.find((row) => row.name === "env.LR")).toEqual({
    name: "env.LR",
    values: ["0.1", "0.2"],
    differs: true,
  });
  expect(rows.find((row) => row.name === "name")?.differs).toBe(false);
});

test("outcomes are told in people's units", () => {
  const rows = outcomesOf([
    { job: job({}), profile: profile([[0, 0.25, 1]]) },
    { job: job({ cost: null }), profile: undefined },
  ]);
  expect(Object.fromEntries(rows.map((row) => [row.name, row.values]))).toMatchObject({
    "Run time": ["1 m", "1 m"],
    "GPU-hours": ["2", "2"],
    Energy: ["1.23 kWh", "1.23 kWh"],
    Cost: ["4.50 EUR", "–"],
    "Last loss": ["0.25", "–"],
  });
});
