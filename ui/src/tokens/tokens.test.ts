import { expect, test } from "vitest";
import { rolesUpTo, shellLine, tokenIn, usualRole } from "./tokens";

test("a token is good for no more than its owner, and for an admin's work only by name", () => {
  expect(rolesUpTo("user")).toEqual(["metrics", "viewer", "user"]);
  expect(rolesUpTo("viewer")).toEqual(["metrics", "viewer"]);
  expect(usualRole("admin")).toBe("user");
  expect(usualRole("viewer")).toBe("viewer");
});

test("the line for a shell names what the command line reads, and the login page reads it back", () => {
  const line = shellLine({ token: "sl_abc-_1", certificate: null }, "http://lab:8000");
  expect(line).toBe("export SCHEDULEARN_URL=http://lab:8000 SCHEDULEARN_TOKEN=sl_abc-_1");
  expect(tokenIn(line)).toBe("sl_abc-_1");
  const trusted = { token: "sl_x", certificate: "sha256:00ff" };
  expect(shellLine(trusted, "https://lab")).toContain(" SCHEDULEARN_CA=sha256:00ff ");
  expect(shellLine(trusted, "http://127.0.0.1:8000")).not.toContain("SCHEDULEARN_CA");
  expect(tokenIn('  SCHEDULEARN_TOKEN="sl_q" python x.py')).toBe("sl_q");
  expect(tokenIn(" sl_plain\n")).toBe("sl_plain");
});
