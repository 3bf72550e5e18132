import { expect, test } from "vitest";
import type { Job } from "../api/types";
import { EMPTY, fromBody, fromJson, hiddenIn, parsePairs, specOf, toBody } from "./values";

const FIVE = {
  ...EMPTY,
  name: "mnist",
  type: "Pytorch",
  container_image: "x",
  command: "python t.py",
  required_gpus: 2,
};

test("an untouched form sends the five keys and nothing else", () => {
  expect(toBody(FIVE)).toEqual({
    name: "mnist",
    type: "Pytorch",
    container_image: "x",
    command: "python t.py",
    required_gpus: 2,
  });
});

test("zero is a value, empty is none", () => {
  expect(toBody({ ...FIVE, priority: 0, max_restarts: "" })).toMatchObject({ priority: 0 });
  expect(toBody({ ...FIVE, max_restarts: "" })).not.toHaveProperty("max_restarts");
});

test("a value may contain the sign that ends the name", () => {
  expect(parsePairs("A=b=c\n\nEMPTY=\r\nD= e")).toEqual({ A: "b=c", EMPTY: "", D: " e" });
});

test("a line without a name is refused by its number", () => {
  expect(() => parsePairs("A=1\nnonsense")).toThrow("Line 2");
  expect(() => parsePairs("=1")).toThrow("Line 1");
});

test("a job submitted again is the same job, with masks for the values that nobody is shown", () => {
  const job = {
    ...toBody(FIVE),
    launcher: "none",
    elastic: false,
    min_gpus: 2,
    max_gpus: 2,
    priority: 50,
    weight: 1,
    max_duration: null,
    max_restarts: 0,
    shm_size: 1024 ** 3,
    env: { HF_TOKEN: "********", LR: "0.1" },
    labels: {},
    user: "",
    data: { "digits@3": "/data/digits" },
    keep: { model: "best.pt" },
    pull: "always",
  } as unknown as Job;
  const values = fromBody(specOf(job));
  expect(hiddenIn(toBody(values).env)).toEqual(["HF_TOKEN"]);
  expect(toBody(values)).toMatchObject({
    ...toBody(FIVE),
    env: { HF_TOKEN: "********", LR: "0.1" },
    shm_size: "1073741824",
    data: { "digits@3": "/data/digits" },
    keep: { model: "best.pt" },
    pull: "always",
  });
  expect(toBody(values)).not.toHaveProperty("min_gpus");
});

test("JSON and form say the same, both ways", () => {
  const body = {
    ...toBody(FIVE),
    elastic: true,
    max_gpus: 8,
    deadline: "2026-05-01T10:30:00.000Z",
    env: { LR: "0.1", EMPTY: "" },
    labels: { team: "vision" },
    notify: ["me", "ada@lab.org"],
    notify_on: ["failure"],
    shm_size: "8g",
    family: "mine",
    grace_period: 30,
    batch_size: 64,
    max_batch_size: 512,
    epochs: 20,
    cpus: 1.5,
    memory: "64g",
    gpu_type: "A100",
    gpu_memory: "20g",
    gpu_memory_min: "24g",
    hosts: "room=b2, gpu-01",
    exclude_hosts: "gpu-03",
    metric: "speed",
    on_hang: "end",
    pull: "always",
    setup: "python prepare.py",
    mounts: { wiki: "/data/wiki", imagenet: "/elsewhere" },
    resize: "in-place",
  };
  expect(toBody(fromJson(JSON.stringify(body)))).toEqual(body);
});

test.each([
  ["{", "Invalid JSON"],
  ["[1]", "a JSON object"],
  ['{"nmae": "x"}', "nmae"],
])("JSON that is no job says why: %s", (text, words) => {
  expect(() => fromJson(text)).toThrow(words);
});

test.each([
  ["room=b2", "room=b2"],
  [["room=b2", "gpu-01"], "room=b2, gpu-01"],
  [{ room: ["b1", "b2"], disk: "nvme" }, "room=b1, room=b2, disk=nvme"],
])("hosts are a text, a list or labels: %j", (hosts, text) => {
  const values = fromJson(
    JSON.stringify({ ...toBody(FIVE), hosts, gpu_type: ["a100", "h100"], exclusive: true }),
  );
  expect(values).toMatchObject({ hosts: text, gpu_type: "a100,h100", exclusive: true });
  const again = toBody(
    fromBody(specOf({ ...toBody(values), hosts: text.split(", "), env: {}, labels: {} } as Job)),
  );
  expect(again).toMatchObject({ hosts: text, gpu_type: "a100,h100", exclusive: true });
});

test("data sets are names, or names with paths", () => {
  const values = { ...fromJson(JSON.stringify(toBody(FIVE))), mounts: "wiki\n imagenet = /elsewhere \n\n" };
  expect(toBody(values).mounts).toEqual({ wiki: "/data/wiki", imagenet: "/elsewhere" });
  expect(fromJson(JSON.stringify({ ...toBody(FIVE), mounts: ["wiki"] })).mounts).toBe("wiki=/data/wiki");
});

test("a job submitted again runs the same code, with what it needs and what it waits for", () => {
  const more = {
    code: { digest: "sha256:ab", commit: "c0ffee", dirty: true, git: null, ref: null },
    requirements: ["einops==0.8"],
    setup: "python prepare.py",
    secrets: { WANDB_API_KEY: "wandb" },
    after: { jobs: ["0a"], when: "ok" },
    ports: { notebook: 8888 },
    idle_timeout: 3600,
    preemptible: true,
  };
  const sent = { ...more, code: { digest: "sha256:ab" } };
  const again = toBody(fromBody(specOf({ ...toBody(FIVE), env: {}, labels: {}, ...more } as unknown as Job)));
  expect(again).toMatchObject(sent);
  expect(toBody(fromJson(JSON.stringify(again)))).toMatchObject(sent);
  expect(() => fromJson(JSON.stringify({ more }))).toThrow("more");
});
