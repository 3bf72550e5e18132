import { expect, test } from "vitest";
import { idsOf, shownIds } from "./ids";

test("ids are shown as they are written", () => {
  for (const text of ["1001:1002", "1001:1002,200,27", ""])
    expect(shownIds(idsOf(text) ?? { uid: 1 })).toBe(text);
  expect(idsOf(" 1001 : 7, 8 ")).toEqual({ uid: 1001, gid: 7, gids: [8] });
});

test("what is none is none", () => {
  for (const text of ["1001", "ada", "1001:", ":5", "1:2,", "-1:2", "1:2:3"]) expect(idsOf(text)).toBeNull();
});
