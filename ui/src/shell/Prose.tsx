/** Text of the service, with `backticks` as code. */
export function Prose({ text }: { text: string }) {
  return text.split("`").map((part, index) =>
    index % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text never move.
      <code key={index} className="mono">
        {part}
      </code>
    ) : (
      part
    ),
  );
}
