/** Return the numbers in "32, 64", and the first invalid word. */
export function wholeNumbers(text: string): { numbers: number[]; wrong: string | undefined } {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  return { numbers: words.map(Number), wrong: words.find((word) => !/^\d{1,15}$/.test(word)) };
}
