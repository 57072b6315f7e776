/** Ids that nobody else has: 96 random bits for this process, and a number. */
const nonce = randomText(12);
let count = 0;

/** An id that no other message has, of this process or of any other. */
export function freshId(): string {
  count += 1;
  return `${nonce}-${count.toString(36)}`;
}

/** Random bytes in hexadecimal. */
export function randomText(bytes: number): string {
  const random = globalThis.crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
