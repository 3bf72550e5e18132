import type { Job } from "../../api/types";
import { EMPTY, type Values } from "../../jobs/values";

const MOST = 20;

/** Return the newest job of each name, image and command. */
export function distinct(jobs: readonly Job[]): Job[] {
  const found = new Map<string, Job>();
  for (const job of jobs) {
    const key = JSON.stringify([job.name, job.container_image, job.command]);
    if (!found.has(key)) found.set(key, job);
  }
  return [...found.values()].slice(0, MOST);
}

/** Turn a search's trial into a job of its own. It drops the search's number in the name, low priority and time
 * limit. */
export const asFound = (trial: Values): Values => ({
  ...trial,
  name: trial.name.replace(/-\d+$/, ""),
  priority: "",
  max_duration: "",
});

const IDLE_S = 3600;

/** Return a random port. Local processes share their machine's ports, so jobs with a fixed port would collide. */
const anyPort = () => 20_000 + Math.floor(Math.random() * 10_000);

/** Preset for JupyterLab on a GPU, as in `schedulearn notebook`. */
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

/** Preset for TensorBoard on a finished job's outputs, as in `schedulearn tensorboard`. */
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

/** Example job that trains on any machine. It needs no GPU and fetches no data. */
export const EXAMPLE: Values = {
  ...EMPTY,
  name: "digits",
  type: "Pytorch",
  container_image: "schedulearn/pytorch",
  command: "python examples/digits/train.py",
  required_gpus: 2,
};
