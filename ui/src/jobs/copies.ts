import type { JobBody } from "../api/commands";

/** Return a submission as a curl command. */
export function asCurl(body: JobBody, origin: string): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`);
  return `curl ${origin}/api/v1/jobs -H 'Content-Type: application/json' -d '${json}'`;
}

/** Return a submission for the `schedulearn` command. It reads a job as JSON. */
export function asCommand(body: JobBody, origin: string): string {
  return `SCHEDULEARN_URL=${origin} schedulearn submit - <<'JSON'\n${JSON.stringify(body, null, 2)}\nJSON`;
}

export function asPython(body: JobBody, origin: string): string {
  return [
    "from schedulearn.api.client.client import Client",
    "",
    `with Client(${JSON.stringify(origin)}) as client:`,
    `    job = client.submit(${literal(body, "    ")})`,
    `    print(job["id"])`,
  ].join("\n");
}

/** Return a JSON value as a Python literal. */
function literal(value: unknown, indent: string): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  if (Array.isArray(value)) return `[${value.map((each) => literal(each, inner)).join(", ")}]`;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  if (entries.length === 0) return "{}";
  const lines = entries.map(([key, each]) => `${inner}${JSON.stringify(key)}: ${literal(each, inner)},`);
  return `{\n${lines.join("\n")}\n${indent}}`;
}
