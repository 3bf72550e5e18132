import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { failuresQuery } from "../../api/queries";
import { plural } from "../../format/number";
import { Prose } from "../../shell/Prose";
import classes from "./FailureGroups.module.css";

const MOST = 5;
const NAMED = 3;

/** Causes that several failed jobs of the last week share, each with its next step. */
export function FailureGroups({ user }: { user: string }) {
  const { data } = useQuery(failuresQuery(user));
  const shared = (data?.items ?? []).filter((group) => group.count > 1 && group.cause !== "").slice(0, MOST);
  if (shared.length === 0) return null;
  return (
    <section className={`card ${classes.groups}`} aria-label="Common causes">
      <h2 className="section-title">Common causes of the last 7 days</h2>
      <ul>
        {shared.map(({ kind, cause, count, step, newest }) => (
          <li key={`${kind} ${cause}`}>
            <strong>
              {plural(count, "job")}: {cause}
            </strong>
            {step && (
              <>
                {" "}
                <Prose text={step} />
              </>
            )}{" "}
            <span className={classes.jobs}>
              {newest.slice(0, NAMED).map((job) => (
                <Link key={job.id} to={`/jobs/${job.id}`}>
                  {job.name}
                </Link>
              ))}
              {count > NAMED && ` and ${count - NAMED} more`}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
