import { client, unwrap } from "./client";

/** Exchange the token for a cookie that scripts can't read. */
export async function openSession(token: string): Promise<void> {
  await unwrap(client.POST("/api/v1/session", { body: { token } }));
}

/** End this browser's session, and everything it has open. */
export async function closeSession(): Promise<void> {
  await unwrap(client.DELETE("/api/v1/session"));
}

/** Log in by the one-time link of the service's first start. The link is removed from the address. */
export async function openSessionByLink(location: Location): Promise<void> {
  const link = new URLSearchParams(location.hash.slice(1)).get("login");
  if (link === null) return;
  window.history.replaceState(null, "", location.pathname + location.search);
  await openSession(link).catch(() => undefined); // then the page asks for the token
}
