import { expect, test } from "vitest";
import { placeOf, shortBusId } from "./placeOf";

test("bus ids are as lspci writes them", () => {
  expect(["00000000:3B:00.0", "00010000:01:00.0", "0000:3b:00.0", ""].map(shortBusId)).toEqual([
    "0000:3B:00.0",
    "00010000:01:00.0",
    "0000:3b:00.0",
    "",
  ]);
});

test("a place is told as far as it is known", () => {
  expect(placeOf({ pci: "00000000:3B:00.0", numa: 1 })).toBe("0000:3B:00.0, NUMA 1");
  expect(placeOf({ pci: "", numa: 0 })).toBe("NUMA 0");
  expect(placeOf({ pci: "", numa: null })).toBe("");
});
