import { useQuery } from "@tanstack/react-query";
import { policyHistoryQuery } from "../../api/policyQueries";
import type { Policy, PolicyChoice } from "../../api/types";
import { When } from "../../format/Elapsed";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNot } from "../../may/useMay";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { choiceOf } from "./draft";
import classes from "./PolicyForm.module.css";
import { nameOf } from "./preview";

const MOST = 20;

interface Props {
  policy: Policy;
  pending: boolean;
  onChoose: (choice: PolicyChoice) => void;
}

/** Past policy choices and their times. The last change can be undone. */
export function PolicyHistory({ policy, pending, onChoose }: Props) {
  const whyNot = useWhyNot("change_policy");
  const found = useQuery(policyHistoryQuery);
  return (
    <section className={`card ${classes.history}`} aria-label="Policy history">
      <h2 className="section-title">Policy history</h2>
      <Loaded query={found} title="The history can't be read">
        {(history) => (
          <ol className={classes.past}>
            {history.length === 0 && <li>No policy was chosen yet: {nameOf(policy)} is the default.</li>}
            {history
              .slice(-MOST)
              .toReversed()
              .map((choice, index, all) => {
                const before = all[index + 1];
                const params = Object.entries(choice.params);
                return (
                  <li key={`${choice.at} ${choice.algorithm}`}>
                    <When at={choice.at} />
                    <strong>{nameOf(choice)}</strong>
                    <span className={classes.params}>
                      {params.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ")}
                    </span>
                    {index === 0 && before && (
                      <GuardedButton
                        whyNot={whyNot}
                        size="compact-xs"
                        variant="default"
                        leftSection={<Icon name="undo" size={13} />}
                        loading={pending}
                        onClick={() => onChoose(choiceOf(before))}
                      >
                        Undo
                      </GuardedButton>
                    )}
                  </li>
                );
              })}
          </ol>
        )}
      </Loaded>
    </section>
  );
}
