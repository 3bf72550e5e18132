import type { Job } from "../../api/types";
import { EMPTY, type Values } from "../../jobs/values";

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

/** A trial of a search as a job of its own: without the number in its name, the low priority and the time limit, which
 * are the search's. */
export const asFound = (trial: Values): Values => ({
  ...trial,
  name: trial.name.replace(/-\d+$/, ""),
  priority: "",
  max_duration: "",
});

const IDLE_S = 3600;

/** Local processes share the ports of their machine: two jobs with the usual one would meet there. */
const anyPort = () => 20_000 + Math.floor(Math.random() * 10_000);

/** JupyterLab on a GPU, as `schedulearn notebook` has it. */
export function notebook(): Values {
  const port = anyPort();
  const options = `--no-browser --allow-root --ip=127.0.0.1 --port=${port} --ServerApp.port_retries=0`;
  const folders = '--ServerApp.root_dir=/ --ServerApp.preferred_dir="$SCHEDULEARN_OUTPUT_DIR"';
  const start = `export JUPYTER_TOKEN=$SCHEDULEARN_PORT_TOKEN; exec jupyter lab ${options} ${folders}`;
  return {
    ...EXAMPLE,
    name: "notebook",
    type: "Jupyter",
    command: `sh -c '${start}'`,
    required_gpus: 1,
    launcher: "none",
    more: { requirements: ["jupyterlab"], ports: { notebook: port }, idle_timeout: IDLE_S },
  };
}

/** TensorBoard over the outputs of a job, once it has ended, as `schedulearn tensorboard` has it. */
export function tensorboard(jobId: string): Values {
  const port = anyPort();
  const folder = '"$(env | sed -n "s/^SCHEDULEARN_INPUT_[^=]*=//p" | head -n 1)"';
  return {
    ...EXAMPLE,
    name: "tensorboard",
    type: "TensorBoard",
    command: `sh -c 'exec tensorboard --port=${port} --logdir ${folder}'`,
    required_gpus: 0,
    launcher: "none",
    more: {
      requirements: ["tensorboard"],
      ports: { tensorboard: port },
      idle_timeout: IDLE_S,
      after: { jobs: [jobId], when: "any" },
    },
  };
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
