import { Button } from "@mantine/core";
import { Link } from "react-router";
import type { JobDetail } from "../../api/types";
import { When } from "../../format/Elapsed";
import { duration, elapsed } from "../../format/time";
import { exitMeaning, placesOf } from "../../jobs/failures";
import { useWhyNot } from "../../may/useMay";
import { Icon } from "../../shell/Icon";
import { Prose } from "../../shell/Prose";
import classes from "./Failure.module.css";

/** Address fragment that opens the log at the line of the failure. */
export const AT_ERROR = "#error";

/** Time, place and cause of a failure, with the most telling log line and the next step. */
export function Failure({ job }: { job: JobDetail }) {
  const { failure } = job;
  const maySubmit = useWhyNot("submit") === null;
  if (!failure || !job.finished_at) return null;
  const places = placesOf(failure.gpus);
  const ran = elapsed(job.started_at, job.finished_at, 0);
  return (
    <section className={classes.failure} aria-label="Failure">
      <p className={classes.what}>
        <Icon name="alert" />
        <span>
          <strong>
            {job.state === "timeout" ? "Time limit reached" : "Failed"} <When at={job.finished_at} />
          </strong>
          {places && ` on ${places}`}
          {ran !== null && (
            <>
              {" after "}
              <span className={classes.whole}>{duration(ran)}</span>
            </>
          )}
          {failure.exit_code !== null && `, ${exitMeaning(failure.exit_code)}`}
        </span>
      </p>
      {failure.line && (
        <div className={classes.log}>
          <pre className={classes.line}>{failure.line}</pre>
          <Button component={Link} to={{ search: "", hash: AT_ERROR }} replace size="xs" variant="default">
            Show in the log
          </Button>
        </div>
      )}
      {failure.step && (
        <p className={classes.step}>
          <span>
            <strong>Next step:</strong> <Prose text={failure.step} />
          </span>
          {failure.clone && maySubmit && (
            <Button component={Link} to={`/submit?from=${job.id}&as=advised`} size="xs">
              {failure.clone.label}
            </Button>
          )}
        </p>
      )}
    </section>
  );
}
