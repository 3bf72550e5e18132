import { expect, test, vi } from "vitest";
import { LogBuffer } from "./LogBuffer";
import { patternOf } from "./LogSearch";
import { answer, linesThatMatch, type Question, rangesIn } from "./marks";
import { PatternSearch } from "./PatternSearch";
import { PatternWorker, type Thread } from "./PatternWorker";

/** Thread that replies as soon as it can, or never. */
class Answering implements Thread {
  onmessage: ((event: MessageEvent) => void) | null = null;
  onerror: ((event: ErrorEvent) => void) | null = null;
  ended = false;
  constructor(readonly stuck: () => boolean) {
    this.#say("ready");
  }
  postMessage(question: Question) {
    if (!this.stuck()) this.#say(answer(question));
  }
  terminate() {
    this.ended = true;
  }
  #say(data: unknown) {
    queueMicrotask(() => !this.ended && this.onmessage?.({ data } as MessageEvent));
  }
}

const regular = (text: string) => patternOf(text, true) as RegExp;

function log(text: string): LogBuffer {
  const buffer = new LogBuffer();
  buffer.append(text);
  return buffer;
}

test("a search goes on with the lines that come, and tells where they match", async () => {
  const buffer = log("epoch 1\nval 1\nepoch 22\nepo");
  const search = new PatternSearch(
    buffer,
    regular("^epoch \\d+$"),
    new PatternWorker(() => new Answering(() => false)),
    () => {},
  );
  await search.look();
  expect(search.found).toEqual([0, 2]);
  buffer.append("ch 3\n");
  await search.look();
  expect(search.found).toEqual([0, 2, 3]);
  expect(search.rangesOf(2, "epoch 22")).toEqual([]);
  await search.look();
  expect(search.rangesOf(2, "epoch 22")).toEqual([[0, 8]]);
});

test("one that takes too long is ended, says so, and the next begins anew", async () => {
  vi.useFakeTimers();
  let stuck = true;
  const threads: Answering[] = [];
  const worker = new PatternWorker(() => {
    threads.push(new Answering(() => stuck));
    return threads.at(-1) as Thread;
  });
  const told = vi.fn();
  const slow = new PatternSearch(log("aaa\n"), regular("(a+)+b"), worker, told);
  const looking = slow.look();
  await vi.advanceTimersByTimeAsync(999);
  expect(slow.problem).toBe("");
  await vi.advanceTimersByTimeAsync(200);
  await looking;
  expect([slow.problem, threads[0]?.ended]).toEqual(["slow", true]);
  expect(told).toHaveBeenCalled();
  stuck = false;
  const next = new PatternSearch(log("aab\n"), regular("a+b"), worker, () => {});
  await next.look();
  expect([next.found, next.problem, threads.length]).toEqual([[0], "", 2]);
  vi.useRealTimers();
});

test("a search that nobody wants any more lets the next one begin at once", async () => {
  let stuck = true;
  const worker = new PatternWorker(() => new Answering(() => stuck));
  const first = new PatternSearch(log("aaa\n"), regular("(a+)+b"), worker, () => {});
  const looking = first.look();
  await Promise.resolve();
  first.end();
  await looking;
  stuck = false;
  const next = new PatternSearch(log("aab\n"), regular("a+b"), worker, () => {});
  await next.look();
  expect([first.problem, next.found]).toEqual(["", [0]]);
});

test("each line is asked alone, in any case", () => {
  const text = "a\nb\nA b\n";
  expect(linesThatMatch(text, [0, 2, 4], regular("a\\s+b"))).toEqual([2]);
  expect(linesThatMatch(text, [0, 2, 4], regular("x*"))).toEqual([0, 1, 2]);
  expect(linesThatMatch("ab\ncd\n", [0, 3], regular("^cd$"))).toEqual([1]);
  expect(rangesIn("abAB", regular("b"))).toEqual([
    [1, 2],
    [3, 4],
  ]);
  expect(rangesIn("abc", regular("x*"))).toEqual([]);
});
