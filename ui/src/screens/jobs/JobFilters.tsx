import { NativeSelect, TextInput } from "@mantine/core";
import type { Job } from "../../api/types";
import { count } from "../../format/number";
import { ENDED, type JobsChoice } from "../../jobs/filters";
import { GROUPS, groupCount, type JobGroup } from "../../jobs/states";
import { Icon } from "../../shell/Icon";
import classes from "./JobFilters.module.css";

type Chosen = "user" | "label" | "host" | "ended";

interface Props {
  choice: JobsChoice;
  onGroup: (group: JobGroup) => void;
  /** Search text as typed. */
  text: string;
  onText: (text: string) => void;
  /** Called with a filter's value; empty: all. */
  onChoose: (name: Chosen, value: string) => void;
  onClear: () => void;
  /** Name of the current user. */
  me: string;
  counts: Record<string, number>;
  /** Jobs listed now. Their users and labels are offered as filters. */
  rows: readonly Job[];
  hosts: readonly string[];
}

export function JobFilters({
  choice,
  onGroup,
  text,
  onText,
  onChoose,
  onClear,
  me,
  counts,
  rows,
  hosts,
}: Props) {
  const { group } = choice;
  const users = rows.map((job) => job.user);
  const labels = rows.flatMap((job) => Object.entries(job.labels).map(([key, value]) => `${key}=${value}`));
  const ended = Object.entries(ENDED).map(([value, label]) => ({ value, label: `ended ${label}` }));
  const chosen = choice.user || choice.label || choice.host || choice.ended;
  const chips: { name: Chosen; says: string; any: string; data: { value: string; label: string }[] }[] = [
    { name: "ended", says: "Ended", any: "any end", data: ended },
    { name: "user", says: "User", any: "any user", data: options(users, choice.user) },
    { name: "host", says: "Host", any: "any host", data: options(hosts, choice.host) },
    { name: "label", says: "Label", any: "any label", data: options(labels, choice.label) },
  ];
  return (
    <div className={classes.filters}>
      <fieldset className={classes.groups}>
        <legend className={classes.legend}>State</legend>
        {(Object.keys(GROUPS) as JobGroup[]).map((each) => (
          <button
            key={each}
            type="button"
            className={classes.group}
            aria-pressed={each === group}
            onClick={() => onGroup(each)}
          >
            {GROUPS[each].name} <span className={classes.count}>{count(groupCount(each, counts))}</span>
          </button>
        ))}
      </fieldset>
      <div className={classes.chips}>
        {me && (
          <button
            type="button"
            className={classes.group}
            aria-pressed={choice.user === me}
            onClick={() => onChoose("user", choice.user === me ? "" : me)}
          >
            Your jobs
          </button>
        )}
        {chips.map(({ name, says, any, data }) => (
          <NativeSelect
            key={name}
            size="xs"
            aria-label={says}
            className={classes.chip}
            data-chosen={choice[name] !== ""}
            data={[{ value: "", label: any }, ...data]}
            value={choice[name]}
            onChange={(event) => onChoose(name, event.currentTarget.value)}
          />
        ))}
        {chosen && (
          <button type="button" className={classes.group} onClick={onClear}>
            Clear
          </button>
        )}
      </div>
      <TextInput
        className={classes.text}
        aria-label="Name or id contains"
        placeholder="Name or id"
        data-search
        leftSection={<Icon name="search" />}
        value={text}
        onChange={(event) => onText(event.currentTarget.value)}
      />
    </div>
  );
}

/** Return the options of a filter: listed values, and the chosen one. */
function options(values: readonly string[], chosen: string): { value: string; label: string }[] {
  const known = new Set([...values, chosen]);
  known.delete("");
  return [...known].sort().map((value) => ({ value, label: value }));
}
