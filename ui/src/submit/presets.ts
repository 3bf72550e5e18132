import type { Job } from "../api/types";
import { EMPTY, type Values } from "./values";

const MOST = 20;

/** The newest job of each name, image and command. */
export function distinct(jobs: readonly Job[]): Job[] {
  const found = new Map<string, Job>();
  for (const job of jobs) {
    const key = JSON.stringify([job.name, job.container_image, job.command]);
    if (!found.has(key)) found.set(key, job);
  }
  return [...found.values()].slice(0, MOST);
}

/** Trains on any machine, with no GPU and no data to fetch. */
export const EXAMPLE: Values = {
  ...EMPTY,
  name: "digits",
  type: "Pytorch",
  container_image: "schedulearn/pytorch",
  command: "python examples/digits/train.py",
  required_gpus: 2,
};
