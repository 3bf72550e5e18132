import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Collector, type QueryKey, slowlyStaleAfter, staleAfter } from "./stale";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("an event of a job touches the list, the job and the hosts, and no other job", () => {
  const found = staleAfter({ kind: "job.running", job_id: "a" }).map((key) => key.join(" "));
  expect(found).toEqual(["jobs", "job a", "job-events a", "hosts", "cluster"]);
});

test("an event of the policy touches the policy and its history only", () => {
  const event = { kind: "policy.changed", job_id: null };
  expect(staleAfter(event)).toEqual([["policy"], ["policy-history"]]);
  expect(slowlyStaleAfter(event)).toEqual([["events"]]);
});

test("the first key goes out at once, a burst after it as one", () => {
  const sent: QueryKey[][] = [];
  const collector = new Collector((found) => sent.push(found), 500);
  collector.add([["jobs"]]);
  for (let i = 0; i < 1000; i++) collector.add([["jobs"], ["hosts"]]);
  expect(sent).toEqual([[["jobs"]]]);
  vi.advanceTimersByTime(500);
  expect(sent[1]).toEqual([["jobs"], ["hosts"]]);
  vi.advanceTimersByTime(5_000);
  expect(sent).toHaveLength(2);
});

test("nothing goes out once it is stopped", () => {
  const sent: QueryKey[][] = [];
  const collector = new Collector((found) => sent.push(found), 500);
  collector.add([["jobs"]]);
  collector.add([["hosts"]]);
  collector.stop();
  vi.advanceTimersByTime(5_000);
  expect(sent).toHaveLength(1);
});
