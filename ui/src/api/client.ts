import createClient from "openapi-fetch";
import { clock } from "../format/clock";
import { patientFetch } from "./connection";
import type { paths } from "./schema";
import { connection } from "./service";
import type { Problem } from "./types";

export const client = createClient<paths, "application/json">({
  baseUrl: window.location.origin,
  fetch: patientFetch(connection, (request) => clock.watch(() => fetch(request))),
});

/** Failed request. Status 0 means that the service did not reply at all. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** Validation message of each rejected field, by the field's dotted name. */
  readonly fields: Readonly<Record<string, string>>;

  constructor(status: number, code: string, detail: string, fields: Record<string, string> = {}) {
    super(detail);
    this.status = status;
    this.code = code;
    this.fields = fields;
  }
}

export function problemToError(status: number, body: unknown): ApiError {
  const problem = (typeof body === "object" && body !== null ? body : {}) as Partial<Problem>;
  const fields: Record<string, string> = {};
  for (const error of problem.errors ?? []) {
    if (error.field) fields[error.field] ??= error.message ?? "";
  }
  const detail = problem.detail ?? `The service answered with status ${status}.`;
  return new ApiError(status, problem.code ?? "unknown", detail, fields);
}

/** Return the data of a reply. Throw ApiError for every other outcome. */
export async function unwrap<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  let answer: Awaited<typeof call>;
  try {
    answer = await call;
  } catch {
    throw new ApiError(0, "unreachable", "The service does not answer. Is it running?");
  }
  if (!answer.response.ok) throw problemToError(answer.response.status, answer.error);
  return answer.data as T;
}

/** Whether the service did not reply. The outcome of the request is then unknown. */
export function isUnanswered(error: unknown): boolean {
  return (
    error instanceof ApiError && (error.status === 0 || (error.code === "unknown" && error.status > 501))
  );
}

/** Return the validation messages of an error, by field. */
export function faultsOf(error: Error | null): Record<string, string> {
  return error instanceof ApiError ? error.fields : {};
}
