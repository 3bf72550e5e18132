import { expect, test } from "vitest";
import type { Gpu } from "../../api/types";
import { whyNoReset } from "./whyNoReset";

const gpu = (fields: Partial<Gpu>) =>
  ({
    simulated: false,
    jobs: [],
    state: "free",
    uuid: "GPU-a",
    occupied_by: "",
    ...fields,
  }) as unknown as Gpu;

test("only an idle, whole, real GPU is reset", () => {
  expect(whyNoReset(gpu({}))).toBeNull();
  expect(whyNoReset(gpu({ state: "unhealthy", fault: "Xid 79" }))).toBeNull();
  expect(whyNoReset(gpu({ simulated: true }))).toContain("simulated");
  expect(whyNoReset(gpu({ uuid: "MIG-a" }))).toContain("whole GPU");
  expect(whyNoReset(gpu({ jobs: ["j"] }))).toContain("drain it first");
  expect(whyNoReset(gpu({ state: "used" }))).toContain("drain it first");
  expect(whyNoReset(gpu({ occupied_by: "vim" }))).toContain("used by vim");
});
