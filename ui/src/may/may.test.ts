import { expect, test } from "vitest";
import { whyNot, whyNotOf } from "./may";

const admin = { name: "boss", refused: {} };
const user = {
  name: "ada",
  refused: { change_all_jobs: "ada is user here", change_hosts: "ada is user here" },
};
const viewer = {
  name: "vic",
  refused: { submit: "vic is viewer here", change_own_jobs: "vic is viewer here", change_all_jobs: "no" },
};

test("what is not refused may be done", () => {
  expect(whyNot(user, "submit")).toBeNull();
  expect(whyNot(user, "change_hosts")).toBe("ada is user here");
  expect(whyNot(viewer, "submit")).toBe("vic is viewer here");
});

test("users change what is theirs, admins everything, viewers nothing", () => {
  expect(whyNotOf(admin, "ada")).toBeNull();
  expect(whyNotOf(user, "ada")).toBeNull();
  expect(whyNotOf(user, "ben", "sweep")).toBe(
    "This sweep belongs to ben: only the owner and admins may change it",
  );
  expect(whyNotOf(user, "")).toContain("no user");
  expect(whyNotOf(viewer, "vic")).toBe("vic is viewer here");
});

test("as long as it is not known who asks, the service decides", () => {
  expect(whyNot(undefined, "change_policy")).toBeNull();
  expect(whyNotOf(undefined, "ben")).toBeNull();
});
