import { useQuery } from "@tanstack/react-query";
import { jobEventsQuery } from "../../api/queries";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import classes from "../../components/Panel.module.css";
import { When } from "../../format/Elapsed";
import { Sentence } from "../../jobs/Sentence";
import { Loaded } from "../../shell/Loaded";

/** Events of the job, newest first. */
export function JobEvents({ id }: { id: string }) {
  const events = useQuery(jobEventsQuery(id));
  return (
    <Panel title="Events">
      <Loaded query={events} title="The events can't be read">
        {({ items }) => (
          <DataTable columns={["When", "What", "Why"]}>
            {items.toReversed().map((event) => (
              <tr key={event.id}>
                <td className={classes.nowrap}>
                  <When at={event.at} seconds />
                </td>
                <td className={classes.nowrap}>{event.kind.replace(/^job\./, "")}</td>
                <td>
                  <Sentence text={event.message} />
                </td>
              </tr>
            ))}
          </DataTable>
        )}
      </Loaded>
    </Panel>
  );
}
