/** One language on all machines: thousands have commas, and a point goes before what is less than one. */
const LANGUAGE = "en";

/** A count: "10,330". By hand, since `Intl` takes long the first time it is asked. */
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

/** "1.2 kWh"; null: no GPU measured it. */
export const energy = (kwh: number | null) => (kwh === null ? "not measured" : `${amount(kwh)} kWh`);

/** An amount, such as GPU-hours: two decimals below ten, whole from there on. */
export function amount(value: number): string {
  return value < 10 ? String(Number(value.toFixed(2))) : count(value);
}

/** A number for people: four digits that count, whole from a thousand on, never with an exponent. */
export function plainNumber(value: number): string {
  return Math.abs(value) >= 1000
    ? value.toLocaleString(LANGUAGE, { maximumFractionDigits: 0 })
    : value.toLocaleString(LANGUAGE, { maximumSignificantDigits: 4 });
}

/** As programs print them: "1.033e+04". What follows no such pattern, such as the id of a job, stays as it is. */
const EXPONENT = /(?<![\w.])\d+(?:\.\d+)?e[+-]\d{2,3}(?!\w)/g;

/** A sentence of the service with its numbers written for people. */
export function plainSentence(text: string): string {
  return text.replace(EXPONENT, (number) => plainNumber(Number(number)));
}

/** A cost in its currency, which may not be named; null: it is not known. */
export function money(value: number | null, currency: string): string {
  if (value === null) return "–";
  return `${value < 1000 ? value.toFixed(2) : count(value)} ${currency}`.trimEnd();
}
