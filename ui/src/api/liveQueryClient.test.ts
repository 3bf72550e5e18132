import { QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { LiveQueryClient } from "./liveQueryClient";

/** A query of which each fetch ends when the test says so. */
function setUp({ shown = true } = {}) {
  const client = new LiveQueryClient({ defaultOptions: { queries: { staleTime: 30_000, retry: false } } });
  const fetches: { resolve: (data: string) => void; reject: (error: Error) => void }[] = [];
  const options = {
    queryKey: ["jobs", "all"],
    queryFn: () => new Promise<string>((resolve, reject) => fetches.push({ resolve, reject })),
  };
  if (shown) new QueryObserver(client, options).subscribe(() => {});
  else void client.prefetchQuery(options);
  const data = () => client.getQueryData(options.queryKey);
  return { client, fetches, options, data };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

test("a change during the first fetch causes one more, however many changes there were", async () => {
  const { client, fetches, data } = setUp();
  const done = [1, 2, 3].map(() => client.invalidateQueries({ queryKey: ["jobs"] }));
  expect(fetches).toHaveLength(1); // it is not started anew by each event, or it would never end
  fetches[0]?.resolve("starting");
  await settled();
  expect(fetches).toHaveLength(2);
  fetches[1]?.resolve("running");
  await Promise.all(done);
  await settled();
  expect([data(), fetches.length]).toEqual(["running", 2]);
});

test("a change after the first fetch causes one more", async () => {
  const { client, fetches, data } = setUp();
  fetches[0]?.resolve("starting");
  await settled();
  const done = client.invalidateQueries({ queryKey: ["jobs"] });
  fetches[1]?.resolve("running");
  await done;
  await settled();
  expect([data(), fetches.length]).toEqual(["running", 2]);
});

test("a change during a later fetch starts that one anew", async () => {
  const { client, fetches, data } = setUp();
  fetches[0]?.resolve("queued");
  await settled();
  void client.invalidateQueries({ queryKey: ["jobs"] });
  const done = client.invalidateQueries({ queryKey: ["jobs"] });
  fetches[1]?.resolve("starting");
  fetches[2]?.resolve("running");
  await done;
  await settled();
  expect([data(), fetches.length]).toEqual(["running", 3]);
});

test("what is fetched before it is shown is fetched again when it is, after a change", async () => {
  const { client, fetches, options } = setUp({ shown: false });
  void client.invalidateQueries({ queryKey: ["jobs"] });
  fetches[0]?.resolve("starting");
  await settled();
  expect(fetches).toHaveLength(1);
  new QueryObserver(client, options).subscribe(() => {});
  expect(fetches).toHaveLength(2);
});

test("a first fetch that fails is not repeated, and the next change fetches", async () => {
  const { client, fetches } = setUp();
  const done = client.invalidateQueries({ queryKey: ["jobs"] });
  fetches[0]?.reject(new Error("refused"));
  await done;
  await settled();
  expect(fetches).toHaveLength(1);
  void client.invalidateQueries({ queryKey: ["jobs"] });
  expect(fetches).toHaveLength(2);
});

test("changes of other queries change nothing", async () => {
  const { client, fetches } = setUp();
  await client.invalidateQueries({ queryKey: ["hosts"] });
  fetches[0]?.resolve("running");
  await settled();
  expect(fetches).toHaveLength(1);
});
