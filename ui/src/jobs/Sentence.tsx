import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { Link } from "react-router";
import { jobNameQuery } from "../api/queries";
import { plainSentence } from "../format/number";
import { partsOf } from "./sentence";

/** A sentence of the service: numbers for people, and each job by its name, with a link. */
export function Sentence({ text }: { text: string }) {
  return partsOf(plainSentence(text)).map((part, index) =>
    index % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text, which never move.
      <JobName key={index} id={part} />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: likewise.
      <Fragment key={index}>{part}</Fragment>
    ),
  );
}

/** Its id until its name is known, and for a job that was deleted. */
function JobName({ id }: { id: string }) {
  const { data: name, error } = useQuery(jobNameQuery(id));
  if (error) return <span className="mono">{id}</span>;
  return (
    <Link to={`/jobs/${id}`} title={`Job ${id}`}>
      {name ?? id}
    </Link>
  );
}
