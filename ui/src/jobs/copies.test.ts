import { expect, test } from "vitest";
import { asCommand, asCurl, asPython } from "./copies";

test("a quote in a command survives the shell", () => {
  expect(asCurl({ command: "sh -c 'ls'" }, "http://h")).toContain(String.raw`sh -c '\''ls'\''`);
});

test("the command reads the job from a document that no job can end early", () => {
  const text = asCommand({ command: "a\nJSON\nrm -rf /" }, "http://h");
  expect(text.split("\n").filter((line) => line === "JSON")).toHaveLength(1);
  expect(text).toContain("schedulearn submit - <<'JSON'");
});

test("Python has its own words for true and null, and strings keep their quotes", () => {
  expect(asPython({ name: 'a"b', elastic: true, env: {}, labels: { team: "x" } }, "http://h")).toBe(
    `from schedulearn.api.client.client import Client

with Client("http://h") as client:
    job = client.submit({
        "name": "a\\"b",
        "elastic": True,
        "env": {},
        "labels": {
            "team": "x",
        },
    })
    print(job["id"])`,
  );
});
