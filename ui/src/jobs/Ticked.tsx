import { Fragment } from "react";

/** Sentence with code between backticks. */
export function Ticked({ text }: { text: string }) {
  return text.split("`").map((part, index) =>
    index % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text never move.
      <code key={index}>{part}</code>
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text never move.
      <Fragment key={index}>{part}</Fragment>
    ),
  );
}
