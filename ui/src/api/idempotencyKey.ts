/** Random idempotency key. Unlike `crypto.randomUUID`, it also works without HTTPS or localhost. */
export function idempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
