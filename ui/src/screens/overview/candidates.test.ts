import { expect, test } from "vitest";
import type { Gpu } from "../../api/types";
import { candidates } from "./candidates";

const gpu = (fields: Partial<Gpu> = {}) =>
  ({ state: "free", fault: "", occupied_by: "", unwatched: "", cordoned: false, ...fields }) as Gpu;
const host = (id: string, gpus: Gpu[], state = "active", reachable = true) => ({
  id,
  gpus,
  state,
  reachable,
});
const job = (required_gpus: number, min_gpus = required_gpus) => ({
  required_gpus,
  min_gpus,
  elastic: min_gpus < required_gpus,
});
const used = gpu({ state: "used" });

test("a host is a candidate if it is open and large enough, free or not", () => {
  const hosts = [
    host("full", [used, used]),
    host("half", [used, gpu()]),
    host("small", [gpu()]),
    host("ill", [gpu({ fault: "Xid 79" }), gpu()]),
    host("closed", [gpu(), gpu()], "cordoned"),
    host("gone", [gpu(), gpu()], "active", false),
  ];
  expect([...candidates(hosts, job(2))]).toEqual([
    ["full", { free: 0, usable: 2 }],
    ["half", { free: 1, usable: 2 }],
  ]);
});

test("a job that no host can hold alone may have several; an elastic one is content with its least", () => {
  const hosts = [host("a", [gpu(), gpu()]), host("b", [used, gpu()])];
  expect([...candidates(hosts, job(3)).keys()]).toEqual(["a", "b"]);
  expect([...candidates([...hosts, host("c", [gpu()])], job(8, 2)).keys()]).toEqual(["a", "b"]);
});
