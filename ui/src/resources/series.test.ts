import { expect, test } from "vitest";
import type { Resources } from "../api/types";
import { cores, memoryNote, nameContainers, resourceLines } from "./series";

const GIB = 2 ** 30;
const MIB = 2 ** 20;
const METRICS = ["cpus", "memory_bytes", "network_in", "network_out", "disk_read", "disk_written"];

function container(rank: number, points: (number | null)[][], more: Partial<Resources["series"][0]> = {}) {
  return {
    name: `schedulearn-a-1-${rank}`,
    host: "h",
    attempt: 1,
    rank,
    cpus_limit: null,
    memory_limit: null,
    memory_peak: null,
    disk_limit: null,
    points,
    ...more,
  };
}

function resources(...series: ReturnType<typeof container>[]): Resources {
  return { step_s: 10, metrics: METRICS, series };
}

test("each container has a line of processors, in cores", () => {
  const found = resourceLines(
    resources(container(0, [[100, 1.5, GIB, 0, 0, 0, 0]]), container(1, [[104, 0.5, GIB, 0, 0, 0, 0]])),
    "cpus",
  );
  expect(found).toMatchObject({ names: ["rank 0", "rank 1"], data: [[100], [1.5], [0.5]] });
});

test("memory is drawn in the unit that suits it", () => {
  const small = resourceLines(resources(container(0, [[100, null, 300 * MIB, 0, 0, 0, 0]])), "memory_bytes");
  expect(small.data).toEqual([[100], [300]]);
  expect([0, 7.25, 250].map(small.format)).toEqual(["0 MiB", "7.3 MiB", "250 MiB"]);
  const little = resourceLines(resources(container(0, [[100, 0, 0, 1536, 0, 0, 0]])), "network");
  expect(little.data).toEqual([[100], [1.5], [0]]);
  expect(little.format(1.5)).toBe("1.5 KiB/s");

  const found = resourceLines(resources(container(0, [[100, null, 3 * GIB, 0, 0, 0, 0]])), "memory_bytes");
  expect(found.data).toEqual([[100], [3]]);
});

test("network and disk are summed over all containers, in and out apart", () => {
  const found = resources(
    container(0, [[100, 1, 1, MIB, 2 * MIB, 0, 0]]),
    container(1, [[107, 1, 1, MIB, null, 4 * MIB, 0]]),
  );
  expect(resourceLines(found, "network")).toMatchObject({ names: ["in", "out"], data: [[100], [2], [2]] });
  expect(resourceLines(found, "disk")).toMatchObject({ names: ["read", "written"], data: [[100], [4], [0]] });
});

test("what no engine tells is no line", () => {
  const found = resourceLines(resources(container(0, [[100, 1, 1, null, null, 0, 0]])), "network");
  expect(found.data[0]).toEqual([]);
});

test("containers are named by what tells them apart", () => {
  expect(nameContainers(resources(container(0, [])).series)).toEqual(["rank 0"]);
  const several = resources(
    container(0, []),
    container(1, [], { host: "k" }),
    container(0, [], { attempt: 2 }),
  );
  expect(nameContainers(several.series)).toEqual([
    "attempt 1 rank 0 on h",
    "attempt 1 rank 1 on k",
    "attempt 2 rank 0 on h",
  ]);
});

test("the peak of memory is told with where it ends", () => {
  const bounded = { memory_peak: GIB, memory_limit: 2 * GIB };
  expect(memoryNote(resources(container(0, [], bounded), container(1, [])).series)).toBe(
    "The most seen at once is 1 GiB; a container ends at 2 GiB.",
  );
  expect(memoryNote(resources(container(0, [], { memory_limit: GIB })).series)).toBe(
    "A container ends at 1 GiB.",
  );
  expect(memoryNote(resources(container(0, [])).series)).toBe("");
});

test("cores are told to a tenth, and below one to two digits that count", () => {
  expect([0, 0.0123, 1, 0.96, 1.24, 12.6].map(cores)).toEqual([
    "0 cores",
    "0.012 cores",
    "1 core",
    "0.96 cores",
    "1.2 cores",
    "13 cores",
  ]);
});
