import {
  Button,
  Collapse,
  NativeSelect,
  NumberInput,
  Stack,
  Switch,
  Textarea,
  TextInput,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { dataSetsQuery } from "../../api/queries";
import type { Values } from "../../jobs/values";
import classes from "./SubmitForm.module.css";

interface Props {
  form: UseFormReturnType<Values>;
  folded: boolean;
  onFold: (folded: boolean) => void;
}

const RESIZES = [
  { value: "", label: "by restart (default)" },
  { value: "restart", label: "by checkpoint and restart" },
  { value: "in-place", label: "in place, while it trains" },
];

const LAUNCHERS = [
  { value: "", label: "horovod (default)" },
  { value: "horovod", label: "horovod" },
  { value: "torchrun", label: "torchrun" },
  { value: "none", label: "none" },
];

export function OptionalFields({ form, folded, onFold }: Props) {
  const elastic = form.values.elastic;
  const { data: declared } = useQuery({ ...dataSetsQuery, enabled: !folded });
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
        <Stack gap="md" pt="sm">
          <div className={classes.pair}>
            <NativeSelect label="Launcher" data={LAUNCHERS} {...form.getInputProps("launcher")} />
            <NumberInput
              label="Priority"
              description="0 to 100, higher first; default 50"
              {...form.getInputProps("priority")}
            />
          </div>
          <Switch
            label="Elastic: the script can be stopped and resumed on another number of GPUs"
            {...form.getInputProps("elastic", { type: "checkbox" })}
          />
          {elastic && (
            <div className={classes.pair}>
              <NumberInput label="Least GPUs" description="Default 1" {...form.getInputProps("min_gpus")} />
              <NumberInput
                label="Most GPUs"
                description="Default: no bound"
                {...form.getInputProps("max_gpus")}
              />
              <NativeSelect label="Resize" data={RESIZES} {...form.getInputProps("resize")} />
            </div>
          )}
          <div className={classes.pair}>
            <NumberInput
              label="Time limit"
              description="Seconds of running, then it is ended"
              {...form.getInputProps("max_duration")}
            />
            <NumberInput
              label="Retries"
              description="After a failure of the command; default 0"
              {...form.getInputProps("max_restarts")}
            />
          </div>
          <div className={classes.pair}>
            <TextInput
              label="Deadline"
              description="For policies that heed it"
              type="datetime-local"
              {...form.getInputProps("deadline")}
            />
            <NumberInput
              label="Weight"
              description="Share against other jobs; default 1"
              {...form.getInputProps("weight")}
            />
          </div>
          <div className={classes.pair}>
            <TextInput
              label="Shared memory"
              description="Default 1g"
              placeholder="8g"
              {...form.getInputProps("shm_size")}
            />
            <TextInput label="User" description="For reports" {...form.getInputProps("user")} />
          </div>
          <div className={classes.pair}>
            <NumberInput
              label="Grace period"
              description="Seconds for a checkpoint before it is killed"
              {...form.getInputProps("grace_period")}
            />
            <TextInput
              label="Family"
              description="Shares what is learned; default: by image and command"
              {...form.getInputProps("family")}
            />
          </div>
          <div className={classes.pair}>
            <NumberInput
              label="Batch size"
              description="Of all workers; default: the script's"
              {...form.getInputProps("batch_size")}
            />
            <NumberInput
              label="Largest batch"
              description="Where the script lets it adapt"
              {...form.getInputProps("max_batch_size")}
            />
          </div>
          <div className={classes.pair}>
            <NumberInput
              label="Processors"
              description="At most; default: no bound"
              {...form.getInputProps("cpus")}
            />
            <TextInput
              label="Memory"
              description="At most; default: its share by GPUs"
              placeholder="64g"
              {...form.getInputProps("memory")}
            />
          </div>
          <Textarea
            label="Data sets"
            description={
              declared && declared.length > 0
                ? `One a line: NAME or NAME=path. There are: ${declared.map((each) => each.name).join(", ")}`
                : "None are declared here: see the setting data_sets"
            }
            autosize
            minRows={1}
            maxRows={10}
            classNames={{ input: "mono" }}
            {...form.getInputProps("mounts")}
          />
          <NumberInput label="Epochs" description="Default: the script's" {...form.getInputProps("epochs")} />
          <Textarea
            label="Environment"
            description="NAME=value, one a line"
            autosize
            minRows={2}
            maxRows={10}
            classNames={{ input: "mono" }}
            {...form.getInputProps("env")}
          />
          <Textarea
            label="Labels"
            description="name=value, one a line"
            autosize
            minRows={2}
            maxRows={10}
            classNames={{ input: "mono" }}
            {...form.getInputProps("labels")}
          />
        </Stack>
      </Collapse>
    </div>
  );
}
