import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { Link } from "react-router";
import { jobNameQuery } from "../api/queries";
import { plainSentence } from "../format/number";
import { partsOf } from "./sentence";

/** Sentence of the service. It has numbers for people, and links named after jobs. */
export function Sentence({ text }: { text: string }) {
  return partsOf(plainSentence(text)).map((part, index) =>
    index % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text never move.
      <JobName key={index} id={part} />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text never move.
      <Fragment key={index}>{part}</Fragment>
    ),
  );
}

/** Link to a job. It shows the id until the name is known, and for a deleted job. */
function JobName({ id }: { id: string }) {
  const { data: name, error } = useQuery(jobNameQuery(id));
  if (error) return <span className="mono">{id}</span>;
  return (
    <Link to={`/jobs/${id}`} title={`Job ${id}`}>
      {name ?? id}
    </Link>
  );
}
