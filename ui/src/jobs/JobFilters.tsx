import { TextInput } from "@mantine/core";
import { Icon } from "../shell/Icon";
import classes from "./JobFilters.module.css";
import { GROUPS, groupCount, type JobGroup } from "./states";

interface Props {
  group: JobGroup;
  onGroup: (group: JobGroup) => void;
  text: string;
  onText: (text: string) => void;
  counts: Record<string, number>;
}

export function JobFilters({ group, onGroup, text, onText, counts }: Props) {
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
            {GROUPS[each].name} <span className={classes.count}>{groupCount(each, counts)}</span>
          </button>
        ))}
      </fieldset>
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
