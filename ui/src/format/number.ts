/** A number for people: four digits that count, whole from a thousand on, never with an exponent. */
export function plainNumber(value: number): string {
  return Math.abs(value) >= 1000
    ? value.toLocaleString(undefined, { maximumFractionDigits: 0 })
    : value.toLocaleString(undefined, { maximumSignificantDigits: 4 });
}

/** As programs print them: "1.033e+04". What follows no such pattern, such as the id of a job, stays as it is. */
const EXPONENT = /(?<![\w.])\d+(?:\.\d+)?e[+-]\d{2,3}(?!\w)/g;

/** A sentence of the service with its numbers written for people. */
export function plainSentence(text: string): string {
  return text.replace(EXPONENT, (number) => plainNumber(Number(number)));
}
