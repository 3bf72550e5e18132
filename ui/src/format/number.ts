/** Number format for all machines: commas for thousands, a decimal point. */
const LANGUAGE = "en";

/** Format a count: "10,330". The first use of `Intl` is slow, so it is avoided here. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "1 GPU", "2 GPUs". */
export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** "1st", "2nd", "13th". */
export function ordinal(value: number): string {
  const ends = value % 100 >= 11 && value % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][value % 10] ?? "th");
  return `${count(value)}${ends}`;
}

/** Format an energy: "1.2 kWh"; null: no GPU measured it. */
export const energy = (kwh: number | null) => (kwh === null ? "not measured" : `${amount(kwh)} kWh`);

/** Format an amount, such as GPU-hours. Below 10 it has two decimals, otherwise none. */
export function amount(value: number): string {
  return value < 10 ? String(Number(value.toFixed(2))) : count(value);
}

/** Format a number to four significant digits, or whole from 1000 on. It never has an exponent. */
export function plainNumber(value: number): string {
  return Math.abs(value) >= 1000
    ? value.toLocaleString(LANGUAGE, { maximumFractionDigits: 0 })
    : value.toLocaleString(LANGUAGE, { maximumSignificantDigits: 4 });
}

/** Number as programs print it: "1.033e+04". Job ids and other text don't match. */
const EXPONENT = /(?<![\w.])\d+(?:\.\d+)?e[+-]\d{2,3}(?!\w)/g;

/** Rewrite the numbers in a sentence of the service for people. */
export function plainSentence(text: string): string {
  return text.replace(EXPONENT, (number) => plainNumber(Number(number)));
}

/** Format a cost. The currency may be empty; null: the cost is unknown. */
export function money(value: number | null, currency: string): string {
  if (value === null) return "–";
  return `${value < 1000 ? value.toFixed(2) : count(value)} ${currency}`.trimEnd();
}
