import { useSearchParams } from "react-router";
import { useSetAddress } from "../../shell/useAddress";

/** How far policies are played. */
export const HOURS = { "6": "6 h", "24": "24 h", "168": "7 d" };
const USUAL = "24";

/** It stands in the address. */
export function useHours(): [number, (hours: string) => void] {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const given = address.get("hours") ?? "";
  return [
    Number(Object.hasOwn(HOURS, given) ? given : USUAL),
    (hours) => set("hours", hours === USUAL ? null : hours),
  ];
}
