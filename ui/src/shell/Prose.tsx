/** Text from documentation in code, where `backticks` mean code. */
export function Prose({ text }: { text: string }) {
  return text.split("`").map((part, index) =>
    index % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text, which never move.
      <code key={index} className="mono">
        {part}
      </code>
    ) : (
      part
    ),
  );
}
