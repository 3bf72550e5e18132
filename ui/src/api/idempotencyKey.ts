/** A random key; `crypto.randomUUID` is there on HTTPS and localhost only, this everywhere. */
export function idempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
