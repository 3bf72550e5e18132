import { useQuery } from "@tanstack/react-query";
import { jobEventsQuery } from "../api/queries";
import { Panel } from "../components/Panel";
import classes from "../components/Panel.module.css";
import { When } from "../format/Elapsed";
import { plainSentence } from "../format/number";
import { ErrorNotice } from "../shell/ErrorNotice";

/** What happened to the job, newest first. */
export function JobEvents({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(jobEventsQuery(id));
  return (
    <Panel title="Events">
      {error && <ErrorNotice title="The events can't be read" error={error} retry={refetch} />}
      <div className={classes.scroll}>
        <table className={classes.table}>
          <thead>
            <tr>
              <th>When</th>
              <th>What</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {data?.items.toReversed().map((event) => (
              <tr key={event.id}>
                <td className={classes.nowrap}>
                  <When at={event.at} seconds />
                </td>
                <td className={classes.nowrap}>{event.kind.replace(/^job\./, "")}</td>
                <td>{plainSentence(event.message)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
