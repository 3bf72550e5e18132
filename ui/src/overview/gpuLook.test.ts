import { expect, test } from "vitest";
import type { Gpu } from "../api/types";
import { lookOf } from "./gpuLook";

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
  island: null,
  numa: null,
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
])("what a GPU shows", (shown, kind, text) => {
  expect(lookOf(shown, host, { a: "Anna's" })).toEqual({ kind, text });
});

test("a free GPU of a closed host can't be had", () => {
  expect(lookOf(gpu({}), { reachable: true, state: "draining" }, {}).kind).toBe("away");
  expect(lookOf(gpu({ jobs: ["a"] }), { reachable: false, state: "active" }, {}).kind).toBe("job");
});
