import { Fact } from "../components/Panel";
import panel from "../components/Panel.module.css";
import classes from "./KeyList.module.css";
import { OTHER_KEYS, SHORTCUTS } from "./shortcuts";

export function KeyList() {
  return (
    <dl className={panel.facts}>
      {[...SHORTCUTS, ...OTHER_KEYS].map(({ keys, does }) => (
        <Fact
          key={keys}
          name={keys.split(" ").map((key) => (
            <kbd key={key} className={classes.key}>
              {key}
            </kbd>
          ))}
        >
          {does}
        </Fact>
      ))}
    </dl>
  );
}
