import { expect, test } from "vitest";
import { DARK, jobColor, LIGHT, shareColors } from "./color";

function luminance(color: string): number {
  const parts = [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * (r as number) + 0.7152 * (g as number) + 0.0722 * (b as number);
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].toSorted((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

test("a name can be read on each colour", () => {
  for (const color of LIGHT) expect(contrast(color, "#ffffff"), color).toBeGreaterThanOrEqual(4.5);
  for (const color of DARK) expect(contrast(color, "#0d1211"), color).toBeGreaterThanOrEqual(4.5);
});

test("jobs that run together have colours of their own, and keep them", () => {
  const jobs = Array.from({ length: LIGHT.length }, (_, index) => `job-${index * 7}`);
  shareColors(jobs);
  const before = jobs.map((id) => jobColor(id, false));
  expect(new Set(before).size).toBe(jobs.length);
  shareColors(jobs.slice(3));
  expect(jobs.slice(3).map((id) => jobColor(id, false))).toEqual(before.slice(3));
  shareColors([...jobs.slice(3), "new"]);
  expect(jobs.slice(3).map((id) => jobColor(id, false))).toEqual(before.slice(3));
  expect(before.slice(3)).not.toContain(jobColor("new", false));
});

test("of more jobs than colours no colour is used more often than it must be", () => {
  const jobs = Array.from({ length: 2 * LIGHT.length }, (_, index) => `many-${index * 3}`);
  shareColors(jobs);
  const uses = new Map<string, number>();
  for (const color of jobs.map((id) => jobColor(id, false))) uses.set(color, (uses.get(color) ?? 0) + 1);
  expect([...uses.values()]).toEqual(new Array(LIGHT.length).fill(2));
});
