/** Strokes on a 16 by 16 grid. */
const PATHS = {
  alert: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.5v.2",
  cancel: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM4 12l8-8",
  check: "M3 8.5 6.5 12 13 4.5",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3.2l2 1.3",
  copy: "M6 6h7.5v7.5H6zM10 6V2.5H2.5V10H6",
  cross: "M4 4l8 8M12 4l-8 8",
  download: "M8 2.5v7.5M4.8 7.2 8 10.4l3.2-3.2M3 13.5h10",
  minus: "M3 8h10",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.5z",
  pause: "M6 3.5v9M10 3.5v9",
  play: "M5 3.2 12.5 8 5 12.8z",
  plus: "M8 3v10M3 8h10",
  repeat: "M3 8a5 5 0 0 1 8.8-3.2L13 6M13 2.8V6H9.8M13 8a5 5 0 0 1-8.8 3.2L3 10M3 13.2V10h3.2",
  resize: "M2.5 8h11M5 5.2 2.2 8 5 10.8M11 5.2 13.8 8 11 10.8",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4 13.5 13.5",
  square: "M4 4h8v8H4z",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
} as const;

export type IconName = keyof typeof PATHS;

/** Decoration: whatever it means is said by the text or the accessible name beside it. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      style={{ flex: "none" }}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
