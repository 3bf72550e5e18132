/** Rows [x, ...values] as columns, with breaks at long gaps. A gap longer than `longest` gets a row of nulls, so
 * that no line crosses it. */
export function columnsWithGaps(
  rows: readonly (readonly (number | null)[])[],
  longest: number,
  width: number,
): [number[], ...(number | null)[][]] {
  const x: number[] = [];
  const columns = Array.from({ length: width }, (): (number | null)[] => []);
  for (const [at, ...values] of rows) {
    if (at == null) continue;
    const before = x.at(-1);
    if (before !== undefined && at - before > longest) {
      x.push((before + at) / 2);
      for (const column of columns) column.push(null);
    }
    x.push(at);
    for (const [index, column] of columns.entries()) column.push(values[index] ?? null);
  }
  return [x, ...columns];
}
