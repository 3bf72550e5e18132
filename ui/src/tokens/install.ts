import type { ClientWheel } from "../api/types";

/** Return the commands that install the command line and log it in, for a terminal on a laptop.
 *
 * With a certificate of the service's own, the hash says which wheel is meant. pip checks it, uv does not. */
export function installLines(
  wheel: Pick<ClientWheel, "path" | "sha256" | "certificate">,
  origin: string,
): string[] {
  const address = `${origin}${wheel.path}`;
  if (wheel.certificate && origin.startsWith("https:")) {
    const trust = `--trusted-host ${origin.slice("https://".length)}`;
    return [
      `pipx install --pip-args="${trust}" "schedulearn[cli] @ ${address}#sha256=${wheel.sha256}"`,
      `schedulearn login ${origin} --ca ${wheel.certificate}`,
    ];
  }
  return [`uv tool install "schedulearn[cli] @ ${address}"`, `schedulearn login ${origin}`];
}
