import { Button, Group, Text } from "@mantine/core";
import { Link } from "react-router";
import { CopyButton } from "../shell/CopyButton";
import classes from "./EmptyJobs.module.css";

/** How to submit the first job, for a service that has none yet. */
export function EmptyJobs() {
  const curl = `curl ${window.location.origin}/api/v1/jobs -H 'Content-Type: application/json' -d '{
  "name": "digits",
  "type": "pytorch",
  "container_image": "schedulearn/pytorch",
  "command": "python examples/digits/train.py",
  "required_gpus": 2
}'`;
  return (
    <section className={`card ${classes.empty}`}>
      <h2 className={classes.title}>No jobs yet</h2>
      <Text c="dimmed" mb="md">
        Five keys are a complete job. It starts as soon as its GPUs are free, pinned to exactly those.
      </Text>
      <pre className={classes.code}>{curl}</pre>
      <Group gap="sm">
        <CopyButton text={curl} label="Copy the command" />
        <Button size="xs" variant="subtle" component={Link} to="/submit">
          Or use the form
        </Button>
      </Group>
    </section>
  );
}
