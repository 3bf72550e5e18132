import {
  Button,
  Collapse,
  Fieldset,
  NativeSelect,
  NumberInput,
  Stack,
  Switch,
  Textarea,
  TextInput,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { dataSetsQuery, hostsQuery } from "../../api/queries";
import { gpuTypes } from "../../gpus/types";
import type { Values } from "../../jobs/values";
import classes from "./SubmitForm.module.css";

interface GroupProps {
  form: UseFormReturnType<Values>;
}

interface Props extends GroupProps {
  folded: boolean;
  onFold: (folded: boolean) => void;
}

const LAUNCHERS = [
  { value: "", label: "horovod (default)" },
  { value: "horovod", label: "horovod" },
  { value: "torchrun", label: "torchrun" },
  { value: "none", label: "none" },
];

const RESIZES = [
  { value: "", label: "by restart (default)" },
  { value: "restart", label: "by checkpoint and restart" },
  { value: "in-place", label: "in place, while it trains" },
];

const METRICS = [
  { value: "", label: "the policy's (default)" },
  { value: "default", label: "default: a fair share" },
  { value: "speed", label: "speed: a short response time" },
  { value: "cost", label: "cost: few GPU-hours" },
];

const ON_HANG = [
  { value: "", label: "by the settings (default)" },
  { value: "warn", label: "report it" },
  { value: "restart", label: "start it again" },
  { value: "end", label: "end it" },
];

const PULLS = [
  { value: "", label: "if missing (default)" },
  { value: "missing", label: "if missing" },
  { value: "always", label: "always: the tag may have moved" },
];

/** Fields with a default, grouped by topic. */
export function OptionalFields({ form, folded, onFold }: Props) {
  return (
    <div>
      <Button
        variant="subtle"
        size="compact-sm"
        ml={-8}
        aria-expanded={!folded}
        aria-controls="optional"
        onClick={() => onFold(!folded)}
      >
        {folded ? "More fields" : "Fewer fields"}
      </Button>
      <Collapse expanded={!folded} id="optional">
        <Stack gap="xl" pt="sm">
          <Start form={form} />
          <Size form={form} folded={folded} />
          <Turn form={form} />
          <Resources form={form} />
          <Inputs form={form} folded={folded} />
          <About form={form} />
        </Stack>
      </Collapse>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Fieldset variant="unstyled" legend={title} classNames={{ legend: classes.legend }}>
      <Stack gap="md">{children}</Stack>
    </Fieldset>
  );
}

function Start({ form }: GroupProps) {
  return (
    <Part title="How it runs">
      <div className={classes.pair}>
        <NativeSelect label="Launcher" data={LAUNCHERS} {...form.getInputProps("launcher")} />
        <NativeSelect label="Pull" data={PULLS} {...form.getInputProps("pull")} />
      </div>
      <TextInput
        label="Setup"
        description="Runs once in each container, before the launcher"
        placeholder="python prepare.py"
        classNames={{ input: "mono" }}
        {...form.getInputProps("setup")}
      />
      <div className={classes.pair}>
        <NumberInput
          label="Batch size"
          description="Of all workers; default: the script's"
          {...form.getInputProps("batch_size")}
        />
        <NumberInput
          label="Largest batch"
          description="If the script adapts its batch"
          {...form.getInputProps("max_batch_size")}
        />
        <NumberInput label="Epochs" description="Default: the script's" {...form.getInputProps("epochs")} />
        <TextInput
          label="Family"
          description="Jobs that share predictions; default: by image and command"
          {...form.getInputProps("family")}
        />
      </div>
    </Part>
  );
}

function Size({ form, folded }: GroupProps & { folded: boolean }) {
  const { elastic, gpu_type } = form.values;
  const { data: hosts } = useQuery({ ...hostsQuery, enabled: !folded });
  const known = [...gpuTypes(hosts ?? []).keys()];
  const types = gpu_type && !known.includes(gpu_type) ? [...known, gpu_type] : known;
  return (
    <Part title="GPUs and size">
      <div className={classes.pair}>
        <NativeSelect
          label="GPU type"
          description="Of all its GPUs"
          data={[
            { value: "", label: "any (default)" },
            ...types.map((type) => ({ value: type, label: type })),
          ]}
          {...form.getInputProps("gpu_type")}
        />
        <TextInput
          label="GPU memory"
          description="Maximum per GPU; default: usage of its family"
          placeholder="20g"
          {...form.getInputProps("gpu_memory")}
        />
        <TextInput
          label="Minimum GPU memory"
          description="Of each GPU; default: any"
          placeholder="24g"
          {...form.getInputProps("gpu_memory_min")}
        />
        <TextInput
          label="Hosts"
          description="Names or labels, with commas; default: any"
          placeholder="room=b2"
          {...form.getInputProps("hosts")}
        />
        <TextInput
          label="Not on hosts"
          description="Names or labels, with commas"
          placeholder="gpu-03"
          {...form.getInputProps("exclude_hosts")}
        />
      </div>
      <Switch
        label="Elastic: the script can be stopped and resumed with another number of GPUs"
        {...form.getInputProps("elastic", { type: "checkbox" })}
      />
      {elastic && (
        <div className={classes.pair}>
          <NumberInput label="Minimum GPUs" description="Default 1" {...form.getInputProps("min_gpus")} />
          <NumberInput
            label="Maximum GPUs"
            description="Default: no limit"
            {...form.getInputProps("max_gpus")}
          />
          <NativeSelect label="Resize" data={RESIZES} {...form.getInputProps("resize")} />
        </div>
      )}
      {!elastic && (
        <Switch
          label="Preemptible: jobs of higher priority may stop it, and it starts again"
          {...form.getInputProps("preemptible", { type: "checkbox" })}
        />
      )}
      {!elastic && (
        <Switch
          label="Exclusive: it runs only on hosts where no other job runs"
          {...form.getInputProps("exclusive", { type: "checkbox" })}
        />
      )}
    </Part>
  );
}

function Turn({ form }: GroupProps) {
  return (
    <Part title="Order and time limits">
      <div className={classes.pair}>
        <NumberInput
          label="Priority"
          description="0 to 100, higher first; default 50"
          {...form.getInputProps("priority")}
        />
        <NumberInput
          label="Weight"
          description="Share against other jobs; default 1"
          {...form.getInputProps("weight")}
        />
        <TextInput
          label="Deadline"
          description="For deadline policies"
          type="datetime-local"
          {...form.getInputProps("deadline")}
        />
        <NativeSelect
          label="Policy metric"
          description="Objective of goodput for this job"
          data={METRICS}
          {...form.getInputProps("metric")}
        />
        <NumberInput
          label="Time limit"
          description="Maximum seconds of running; then it is ended"
          {...form.getInputProps("max_duration")}
        />
        <NumberInput
          label="Grace period"
          description="Seconds for a checkpoint before it is killed"
          {...form.getInputProps("grace_period")}
        />
        <NumberInput
          label="Retries"
          description="After failures of the command; default 0"
          {...form.getInputProps("max_restarts")}
        />
        <NativeSelect
          label="If it hangs"
          description="Or does not use its GPUs"
          data={ON_HANG}
          {...form.getInputProps("on_hang")}
        />
      </div>
    </Part>
  );
}

function Resources({ form }: GroupProps) {
  return (
    <Part title="Processors and memory">
      <div className={classes.pair}>
        <NumberInput
          label="Processors"
          description="Maximum; default: no limit"
          {...form.getInputProps("cpus")}
        />
        <TextInput
          label="Memory"
          description="Maximum; default: its share by GPUs"
          placeholder="64g"
          {...form.getInputProps("memory")}
        />
        <TextInput
          label="Shared memory"
          description="Default 4g per GPU"
          placeholder="8g"
          {...form.getInputProps("shm_size")}
        />
      </div>
    </Part>
  );
}

function Inputs({ form, folded }: GroupProps & { folded: boolean }) {
  const { data: declared } = useQuery({ ...dataSetsQuery, enabled: !folded });
  return (
    <Part title="Data and environment">
      <Textarea
        label="Data sets"
        description={
          declared && declared.length > 0
            ? `One per line: NAME or NAME=path. Available: ${declared.map((each) => each.name).join(", ")}`
            : "None are declared: see the setting data_sets"
        }
        autosize
        minRows={1}
        maxRows={10}
        classNames={{ input: "mono" }}
        {...form.getInputProps("mounts")}
      />
      <Textarea
        label="Environment"
        description="NAME=value, one per line"
        autosize
        minRows={2}
        maxRows={10}
        classNames={{ input: "mono" }}
        {...form.getInputProps("env")}
      />
    </Part>
  );
}

function About({ form }: GroupProps) {
  return (
    <Part title="For display and reports">
      <TextInput
        className={classes.narrow}
        label="Notify"
        description="me for your addresses (see Settings), the name of one, or an e-mail address; with commas"
        placeholder="me"
        {...form.getInputProps("notify")}
      />
      <TextInput
        className={classes.narrow}
        label="User"
        description="Owner; admins may name another user"
        {...form.getInputProps("user")}
      />
      <Textarea
        label="Labels"
        description="name=value, one per line"
        autosize
        minRows={2}
        maxRows={10}
        classNames={{ input: "mono" }}
        {...form.getInputProps("labels")}
      />
      <p className={classes.note}>
        Requirements, secrets, ports, jobs to wait for, data set versions and kept outputs are keys of the
        JSON.
      </p>
    </Part>
  );
}
