import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Connection, isNotOfTheService, patientFetch } from "./connection";

let up = true;
let probes = 0;
let connection: Connection;

beforeEach(() => {
  vi.useFakeTimers();
  vi.setSystemTime("2026-05-01T14:02:10Z");
  up = true;
  probes = 0;
  connection = new Connection({
    probe: async () => {
      probes += 1;
      return up;
    },
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const url = "http://service/api/v1/jobs";

/** A `send` that fails `times` times, then replies. */
function failing(times: number, failure: () => Promise<Response>) {
  const sent: string[] = [];
  return {
    sent,
    send: (request: Request) => {
      sent.push(request.method);
      return sent.length <= times ? failure() : Promise.resolve(new Response("[]"));
    },
  };
}
const cutOff = () => Promise.reject(new TypeError("network changed"));

test("an outage lasts from the first failure to the first answer, and is tried less and less often", async () => {
  up = false;
  connection.failed();
  const since = Date.now();
  expect(connection.outage()).toEqual({ since, retryAt: since + 250 });
  await vi.advanceTimersByTimeAsync(250);
  expect(connection.outage()).toEqual({ since, retryAt: since + 250 + 1_000 });
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(probes).toBeLessThan(50);
  expect(connection.outage()?.since).toBe(since);
  up = true;
  connection.retryNow();
  await vi.advanceTimersByTimeAsync(0);
  expect(connection.outage()).toBeNull();
  expect(vi.getTimerCount()).toBe(0);
});

test("one probe tries for all who wait", async () => {
  up = false;
  const { sent, send } = failing(20, cutOff);
  const fetches = Array.from({ length: 20 }, () => patientFetch(connection, send)(new Request(url)));
  await vi.advanceTimersByTimeAsync(7_300);
  expect([sent.length, probes]).toEqual([20, 4]);
  up = true;
  await vi.advanceTimersByTimeAsync(8_000);
  const answers = await Promise.all(fetches);
  expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(200));
  expect(sent).toHaveLength(40);
});

test("a request that is cut off once is made again at once", async () => {
  const { sent, send } = failing(1, cutOff);
  const answer = patientFetch(connection, send)(new Request(url));
  await vi.advanceTimersByTimeAsync(250);
  expect((await answer).status).toBe(200);
  expect(sent).toEqual(["GET", "GET"]);
});

test("what fails while the service answers others fails after some tries", async () => {
  const { sent, send } = failing(100, cutOff);
  const answer = expect(patientFetch(connection, send)(new Request(url))).rejects.toThrow("network changed");
  await vi.advanceTimersByTimeAsync(60_000);
  await answer;
  expect(sent).toHaveLength(3);
});

test("what changes something is sent once", async () => {
  const { sent, send } = failing(1, cutOff);
  const request = new Request(url, { method: "POST", body: "{}" });
  await expect(patientFetch(connection, send)(request)).rejects.toThrow("network changed");
  expect(sent).toEqual(["POST"]);
  expect(connection.outage()).not.toBeNull();
});

test("who no longer wants the answer stops to wait for it", async () => {
  up = false;
  const { send } = failing(100, cutOff);
  const wanted = new AbortController();
  const answer = patientFetch(connection, send)(new Request(url, { signal: wanted.signal }));
  const ended = expect(answer).rejects.toThrow("no longer");
  await vi.advanceTimersByTimeAsync(1_000);
  wanted.abort(new Error("no longer"));
  await ended;
});

test("a proxy that finds no service is an outage, an error that the service explains is none", () => {
  const html = { headers: { "content-type": "text/html" } };
  const problem = { headers: { "content-type": "application/problem+json" } };
  expect(isNotOfTheService(new Response("Bad Gateway", { status: 502, ...html }))).toBe(true);
  expect(isNotOfTheService(new Response("{}", { status: 503, ...problem }))).toBe(false);
  expect(isNotOfTheService(new Response("a fault", { status: 500, ...html }))).toBe(false);
});
