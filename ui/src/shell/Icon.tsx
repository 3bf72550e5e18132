import {
  IconAlertTriangle,
  IconArrowBackUp,
  IconArrowsHorizontal,
  IconArrowsMaximize,
  IconBan,
  IconCheck,
  IconChevronDown,
  IconChevronUp,
  IconClock,
  IconColumns,
  IconCopy,
  IconDots,
  IconDownload,
  IconLink,
  IconMinus,
  IconMoon,
  IconPhoto,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlus,
  IconRegex,
  IconRepeat,
  IconSearch,
  IconSquare,
  IconSun,
  IconUser,
  IconX,
} from "@tabler/icons-react";

/** What the page calls the pictures that it uses. */
const ICONS = {
  alert: IconAlertTriangle,
  cancel: IconBan,
  check: IconCheck,
  clock: IconClock,
  columns: IconColumns,
  copy: IconCopy,
  cross: IconX,
  dots: IconDots,
  down: IconChevronDown,
  download: IconDownload,
  link: IconLink,
  maximize: IconArrowsMaximize,
  minus: IconMinus,
  moon: IconMoon,
  pause: IconPlayerPause,
  person: IconUser,
  photo: IconPhoto,
  play: IconPlayerPlay,
  plus: IconPlus,
  regex: IconRegex,
  repeat: IconRepeat,
  resize: IconArrowsHorizontal,
  search: IconSearch,
  square: IconSquare,
  sun: IconSun,
  undo: IconArrowBackUp,
  up: IconChevronUp,
} as const;

export type IconName = keyof typeof ICONS;

/** Decoration: whatever it means is said by the text or the accessible name beside it. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  const Picture = ICONS[name];
  return <Picture size={size} stroke={1.8} aria-hidden="true" style={{ flex: "none" }} />;
}
