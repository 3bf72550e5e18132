import { expect, test } from "vitest";
import type { Gpu } from "../api/types";
import { fillOf, lookOf, mostWatts, runsOf } from "./gpuLook";

const gpu = (fields: Partial<Gpu>): Gpu => ({
  uuid: "u",
  host: "h",
  index: 3,
  type: "t",
  memory_bytes: 0,
  simulated: false,
  utilization: null,
  state: "free",
  fault: "",
  occupied_by: "",
  unwatched: "",
  cordoned: false,
  drain_until: null,
  warnings: [],
  island: null,
  numa: null,
  pci: "",
  reading: null,
  jobs: [],
  ...fields,
});
const host = { reachable: true, state: "active" };

test.each([
  [gpu({}), "free", "GPU 3: free"],
  [gpu({ jobs: ["a", "b"], utilization: 41.6 }), "job", "GPU 3: Anna's, b, 42% busy"],
  [
    gpu({ occupied_by: "python (process 7)", utilization: 90 }),
    "foreign",
    "GPU 3: used by python (process 7), 90% busy",
  ],
  [gpu({ jobs: ["a"], fault: "Xid 79" }), "fault", "GPU 3: unhealthy: Xid 79"],
  [gpu({ cordoned: true }), "away", "GPU 3: cordoned"],
  [gpu({ cordoned: true, drain_until: "2026-11-01T00:00:00Z" }), "away", "GPU 3: draining"],
  [gpu({ cordoned: true, jobs: ["a"] }), "job", "GPU 3: Anna's"],
  [gpu({ unwatched: "Unknown Error" }), "away", "GPU 3: not monitored now, no readings"],
  [gpu({ jobs: ["a"], unwatched: "Unknown Error" }), "job", "GPU 3: Anna's, no readings"],
])("what a GPU shows", (shown, kind, text) => {
  expect(lookOf(shown, host, { a: "Anna's" })).toEqual({ kind, text });
});

test("a free GPU of a closed host can't be had", () => {
  expect(lookOf(gpu({}), { reachable: true, state: "draining" }, {}).kind).toBe("away");
  expect(lookOf(gpu({ jobs: ["a"] }), { reachable: false, state: "active" }, {}).kind).toBe("job");
});

const reading = { memory_bytes: 3 << 20, power_w: 150 } as Gpu["reading"];

test("a GPU tells what was measured of it", () => {
  const shown = gpu({ utilization: 50, memory_bytes: 12 << 20, reading });
  expect(lookOf(shown, host, {}).text).toBe("GPU 3: free, 50% busy, 3 MiB, 150 W");
  expect([fillOf(shown, "busy", 300), fillOf(shown, "memory", 300), fillOf(shown, "power", 300)]).toEqual([
    50, 25, 50,
  ]);
  expect(mostWatts([{ gpus: [gpu({}), shown] }])).toBe(150);
});

test("where nothing was measured a square is full", () => {
  expect([fillOf(gpu({}), "busy", 0), fillOf(gpu({}), "memory", 0), fillOf(gpu({}), "power", 0)]).toEqual([
    100, 100, 100,
  ]);
});

test("neighbours with the same jobs are one run, within a line", () => {
  const jobs = ["a", "a", "", "", "b", "a"].map((id, index) => gpu({ index, jobs: id ? [id] : [] }));
  const runs = (line: number) => runsOf(jobs, line).map((run) => run.map((each) => each.index));
  expect(runs(8)).toEqual([[0, 1], [2, 3], [4], [5]]);
  expect(runs(3)).toEqual([[0, 1], [2], [3], [4], [5]]);
});
