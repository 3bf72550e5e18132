import { useSearchParams } from "react-router";
import { useSetAddress } from "../../shell/useAddress";

/** Simulated time spans. */
export const HOURS = { "6": "6 h", "24": "24 h", "168": "7 d" };
const USUAL = "24";

/** Return the time span, which the address stores, and its setter. */
export function useHours(): [number, (hours: string) => void] {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const given = address.get("hours") ?? "";
  return [
    Number(Object.hasOwn(HOURS, given) ? given : USUAL),
    (hours) => set("hours", hours === USUAL ? null : hours),
  ];
}
