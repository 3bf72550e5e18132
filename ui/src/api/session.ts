import { client, unwrap } from "./client";

/** Trades the token for a cookie that scripts can't read. */
export async function openSession(token: string): Promise<void> {
  // The route reads its body by hand, so the document does not describe it.
  await unwrap(client.POST("/api/v1/session", { body: { token } as never }));
}
