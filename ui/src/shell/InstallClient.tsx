import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { clientQuery } from "../api/queries";
import { installLines } from "../tokens/install";
import { CopyButton } from "./CopyButton";
import classes from "./InstallClient.module.css";

/** Commands that install the command line on a laptop. Nothing is shown where the service has no wheel. */
export function InstallClient() {
  const { data } = useQuery({ ...clientQuery, retry: false });
  if (!data) return null;
  const lines = installLines(data, window.location.origin);
  return (
    <details className={classes.install}>
      <summary>Command line for your laptop</summary>
      <Text size="sm" mt={6} mb={6}>
        With Python 3.11 or newer, in a terminal:
      </Text>
      <pre className={classes.lines}>{lines.join("\n")}</pre>
      <CopyButton text={lines.join("\n")} />
    </details>
  );
}
