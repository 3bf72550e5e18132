import type { Experiment } from "../../../api/types";
import { harmless, quoted } from "../../../chart/values";

/** A line a run: its levels, its job, its state and all that was measured, as `schedulearn experiment csv` has it. */
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
