import type { Experiment } from "../../../api/types";
import { harmless, quoted } from "../../../chart/values";

/** Return the runs as CSV. A line has the levels, job, state and all measured values. `schedulearn experiment csv`
 * writes the same. */
export function runsCsv({
  parameters,
  responses,
  table,
}: Pick<Experiment, "parameters" | "responses" | "table">) {
  const rows = table.map((run) => [
    run.number,
    ...parameters.map((name) => run.params[name] ?? ""),
    run.job ?? "",
    run.state,
    ...responses.map((name) => run.results?.[name] ?? ""),
  ]);
  const lines = [["run", ...parameters, "job", "state", ...responses], ...rows];
  return `${lines.map((line) => line.map(cell).join(",")).join("\n")}\n`;
}

const cell = (value: string | number | boolean) =>
  typeof value === "string" ? quoted(harmless(value)) : String(value);
