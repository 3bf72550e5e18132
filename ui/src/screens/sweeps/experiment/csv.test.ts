import { expect, test } from "vitest";
import type { Trial } from "../../../api/types";
import { runsCsv } from "./csv";

test("a line a run, with what it lacks left empty, and no formula", () => {
  const done = {
    number: 1,
    params: { n: -1, opt: "=1+1" },
    job: "j1",
    state: "succeeded",
    results: { cost: 2.5 },
  };
  const failed = { number: 2, params: { n: 2, opt: 'a,"b"' }, job: null, state: "deleted", results: {} };
  const table = [done, failed] as unknown as Trial[];
  expect(runsCsv({ parameters: ["n", "opt"], responses: ["cost"], table })).toBe(
    "run,n,opt,job,state,cost\n1,-1,'=1+1,j1,succeeded,2.5\n" + '2,2,"a,""b""",,deleted,\n',
  );
});
