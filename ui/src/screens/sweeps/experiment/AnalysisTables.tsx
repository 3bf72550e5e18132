import { Text } from "@mantine/core";
import type { Analysis } from "../../../api/types";
import { DataTable } from "../../../components/DataTable";
import { Panel } from "../../../components/Panel";
import { fourDigits } from "../../../sweeps/runs";
import { shownP, within } from "./results";

const MOST_CELLS = 200;

const percent = (share: number) => `${(100 * share).toFixed(1)}%`;

/** Analysis of variance, one row per term. */
export function TermsTable({ analysis }: { analysis: Analysis }) {
  const { terms, error, error_df, total, runs, confidence } = analysis;
  const effects = terms.some((term) => term.effect !== null);
  const columns = ["term", "df", "sum of squares", "share", "F", "p", ...(effects ? ["effect"] : [])];
  return (
    <Panel title="Analysis of variance">
      <DataTable
        columns={columns}
        foot={
          <>
            <tr>
              <td>error</td>
              <td>{error_df}</td>
              <td>{fourDigits(error)}</td>
              <td>{total > 0 && percent(error / total)}</td>
              <td colSpan={columns.length - 4} />
            </tr>
            <tr>
              <td>total</td>
              <td>{runs - 1}</td>
              <td>{fourDigits(total)}</td>
              <td colSpan={columns.length - 3} />
            </tr>
          </>
        }
      >
        {terms.map((term) => (
          <tr key={term.factors.join(" ")}>
            <td>{term.factors.join(" × ")}</td>
            <td>{term.df}</td>
            <td>{fourDigits(term.sum_of_squares)}</td>
            <td>{percent(term.share)}</td>
            <td>{fourDigits(term.f)}</td>
            <td>
              {term.p !== null && term.p < 1 - confidence ? (
                <strong>{shownP(term.p)}</strong>
              ) : (
                shownP(term.p)
              )}
            </td>
            {effects && (
              <td>{term.effect !== null && within(term.effect, term.effect_low, term.effect_high)}</td>
            )}
          </tr>
        ))}
      </DataTable>
      <Text size="sm" c="dimmed" mt="xs">
        {error_df === 0
          ? "Effects can't be separated from noise: run each point at least twice, with replications."
          : `p is the probability of a share this large if the term had no effect; bold if it is below ${fourDigits(1 - confidence)}.`}
        {effects && " An effect is half the difference between the two levels."}
      </Text>
    </Panel>
  );
}

/** Mean of each point, with its interval. */
export function CellsTable({ analysis }: { analysis: Analysis }) {
  const { cells, response, confidence } = analysis;
  const factors = Object.keys(cells[0]?.levels ?? {});
  const shown = cells.slice(0, MOST_CELLS);
  return (
    <Panel title="Points">
      <DataTable
        columns={[...factors, "runs", `mean ${response} (${Math.round(100 * confidence)}% interval)`]}
      >
        {shown.map((cell) => (
          <tr key={JSON.stringify(cell.levels)}>
            {factors.map((name) => (
              <td key={name}>{String(cell.levels[name] ?? "")}</td>
            ))}
            <td>{cell.runs}</td>
            <td>{within(cell.mean, cell.low, cell.high)}</td>
          </tr>
        ))}
      </DataTable>
      {cells.length > shown.length && (
        <Text size="sm" c="dimmed" mt="xs">
          The first {shown.length} of {cells.length} points. The CSV has every run.
        </Text>
      )}
    </Panel>
  );
}
