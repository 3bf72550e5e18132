import { client, unwrap } from "./client";

/** Trades the token for a cookie that scripts can't read. */
export async function openSession(token: string): Promise<void> {
  await unwrap(client.POST("/api/v1/session", { body: { token } }));
}

/** Ends the session of this browser; what it has open ends too. */
export async function closeSession(): Promise<void> {
  await unwrap(client.DELETE("/api/v1/session"));
}

/** Logs in by the link of the service's first start, once, and takes it out of the address. */
export async function openSessionByLink(location: Location): Promise<void> {
  const link = new URLSearchParams(location.hash.slice(1)).get("login");
  if (link === null) return;
  window.history.replaceState(null, "", location.pathname + location.search);
  await openSession(link).catch(() => undefined); // then the page asks for the token
}
