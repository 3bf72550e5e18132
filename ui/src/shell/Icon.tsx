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

/** Icons in use, by the page's own names. */
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

/** Decorative icon. The text or accessible name beside it carries the meaning. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  const Picture = ICONS[name];
  return <Picture size={size} stroke={1.8} aria-hidden="true" style={{ flex: "none" }} />;
}
