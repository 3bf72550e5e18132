import { NativeSelect, NumberInput, TextInput } from "@mantine/core";
import type { JobBody } from "../../api/commands";
import classes from "./Advice.module.css";
import { batchesAround, type Question, USUAL_METRIC, usualGpus } from "./advice";

const UNITS = [
  { value: "1", label: "seconds" },
  { value: "60", label: "minutes" },
  { value: "3600", label: "hours" },
  { value: "86400", label: "days" },
];

const GOALS = [
  { value: "max", label: "higher" },
  { value: "min", label: "lower" },
];

interface Props {
  question: Question;
  faults: Partial<Record<keyof Question, string>>;
  job: JobBody | null;
  /** Number of GPUs of each type. */
  types: ReadonlyMap<string, number>;
  onChange: (change: Partial<Question>) => void;
}

/** Fields for the objective and the configurations to compare. */
export function AdviceFields({ question, faults, job, types, onChange }: Props) {
  const type = job?.gpu_type;
  const most = Math.max(0, ...(type ? [types.get(type) ?? 0] : types.values()));
  const batches = batchesAround(job?.batch_size).join(", ");
  const own = job?.deadline ? "by the job's deadline" : "at any time";
  return (
    <>
      <div className={classes.pair}>
        <NativeSelect
          label="Done"
          data={[
            { value: "job", label: own },
            { value: "within", label: "within" },
            { value: "by", label: "by a time" },
          ]}
          value={question.done}
          onChange={(event) => onChange({ done: event.currentTarget.value as Question["done"] })}
        />
        {question.done === "within" && (
          <div className={classes.span}>
            <NumberInput
              label="Within"
              min={0}
              value={question.within}
              error={faults.within}
              onChange={(within) => onChange({ within })}
            />
            <NativeSelect
              label="Unit"
              data={UNITS}
              value={question.unit}
              onChange={(event) => onChange({ unit: event.currentTarget.value })}
            />
          </div>
        )}
        {question.done === "by" && (
          <TextInput
            label="By"
            type="datetime-local"
            value={question.by}
            error={faults.by}
            onChange={(event) => onChange({ by: event.currentTarget.value })}
          />
        )}
      </div>
      <div className={classes.three}>
        <TextInput
          label="Metric"
          description="As the script logs it"
          placeholder={USUAL_METRIC}
          value={question.metric}
          error={faults.metric}
          onChange={(event) => onChange({ metric: event.currentTarget.value })}
        />
        <NativeSelect
          label="Better"
          description="Of the metric"
          data={GOALS}
          value={question.goal}
          onChange={(event) => onChange({ goal: event.currentTarget.value as Question["goal"] })}
        />
        <NumberInput
          label="Target"
          description={question.goal === "max" ? "At least" : "At most"}
          placeholder="none"
          value={question.target}
          error={faults.target}
          onChange={(target) => onChange({ target })}
        />
      </div>
      <div className={classes.pair}>
        <TextInput
          label="GPU counts"
          description={type ? `To compare, of ${type}` : "To compare"}
          placeholder={usualGpus(most).join(", ") || "powers of two"}
          value={question.gpus}
          error={faults.gpus}
          onChange={(event) => onChange({ gpus: event.currentTarget.value })}
        />
        <TextInput
          label="Batches"
          description="To compare"
          placeholder={batches || "those tried before"}
          value={question.batches}
          error={faults.batches}
          onChange={(event) => onChange({ batches: event.currentTarget.value })}
        />
      </div>
    </>
  );
}
