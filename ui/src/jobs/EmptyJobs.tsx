import { Group, Text } from "@mantine/core";
import { GuardedButton } from "../may/GuardedButton";
import { useWhyNot } from "../may/useMay";
import { CopyButton } from "../shell/CopyButton";
import classes from "./EmptyJobs.module.css";

/** Instructions for submitting the first job to an empty service. */
export function EmptyJobs() {
  const whyNot = useWhyNot("submit");
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
        Five keys are a complete job. It starts when its GPUs are free, and uses only those.
      </Text>
      <pre className={classes.code}>{curl}</pre>
      <Group gap="sm">
        <CopyButton text={curl} label="Copy the command" />
        <GuardedButton whyNot={whyNot} size="xs" variant="subtle" to="/submit">
          Or use the form
        </GuardedButton>
      </Group>
    </section>
  );
}
