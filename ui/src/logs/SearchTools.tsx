import { ActionIcon, TextInput, Tooltip } from "@mantine/core";
import { count as digits } from "../format/number";
import { Icon } from "../shell/Icon";
import classes from "./LogView.module.css";

const PROBLEMS = {
  slow: "Stopped: this expression takes too long. Use a simpler one.",
  failed: "The search could not be started. Reload the page, or search for words.",
};

interface Props {
  text: string;
  regular: boolean;
  /** The text is not a valid regular expression. */
  wrong: boolean;
  /** Reason why the search gave up. */
  problem: "" | "slow" | "failed";
  /** Number of matching lines; null: no search. */
  matches: number | null;
  /** Index of the match that the user went to, or null. With null, only matching lines are shown. */
  current: number | null;
  onText: (text: string) => void;
  onRegular: () => void;
  onGo: (by: 1 | -1) => void;
  onOnlyMatches: () => void;
}

/** Search controls of a log. Typing filters the lines. Enter goes from match to match among all lines. */
export function SearchTools(props: Props) {
  const { text, regular, wrong, problem, matches, current, onText, onRegular, onGo, onOnlyMatches } = props;
  return (
    <>
      <TextInput
        className={classes.search}
        size="xs"
        aria-label="Search the log"
        placeholder="Search"
        value={text}
        error={wrong || problem !== ""}
        onChange={(event) => onText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") onGo(event.shiftKey ? -1 : 1);
          if (event.key === "Escape" && current !== null) onOnlyMatches();
        }}
        leftSection={<Icon name="search" />}
        rightSection={
          <Tooltip label={wrong ? "Invalid regular expression" : "Regular expression"}>
            <ActionIcon
              size="sm"
              variant={regular ? "light" : "subtle"}
              color={wrong ? "red" : regular ? "verdigris" : "gray"}
              aria-label="Regular expression"
              aria-pressed={regular}
              onClick={onRegular}
            >
              <Icon name="regex" size={14} />
            </ActionIcon>
          </Tooltip>
        }
      />
      {problem !== "" && (
        <span className={classes.problem} role="alert">
          {PROBLEMS[problem]}
        </span>
      )}
      {matches !== null && (
        <span className={classes.steps}>
          {([-1, 1] as const).map((by) => (
            <ActionIcon
              key={by}
              size="sm"
              variant="default"
              disabled={matches === 0}
              aria-label={by < 0 ? "Previous match, in context" : "Next match, in context"}
              onClick={() => onGo(by)}
            >
              <Icon name={by < 0 ? "up" : "down"} size={14} />
            </ActionIcon>
          ))}
          {current !== null && (
            <>
              <span className={classes.count}>
                {digits(current + 1)} of {digits(matches)}
              </span>
              <button type="button" className={classes.only} onClick={onOnlyMatches}>
                Only matches
              </button>
            </>
          )}
        </span>
      )}
    </>
  );
}
