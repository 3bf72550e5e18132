import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from "@mantine/core";

const verdigris: MantineColorsTuple = [
  "#e9f7f4",
  "#d0ebe5",
  "#a1d6cb",
  "#6fc0b0",
  "#46ad99",
  "#2c9f8a",
  "#1b8f7b",
  "#0d7261",
  "#095c4e",
  "#04473c",
];

const dark: MantineColorsTuple = [
  "#d9dfdd",
  "#b8c2bf",
  "#9aa6a2",
  "#66716e",
  "#35403d",
  "#28302e",
  "#1a211f",
  "#111716",
  "#0d1211",
  "#080c0b",
];

/** Reds dark enough for white text on them, and on white. */
const red: MantineColorsTuple = [
  "#fdeceb",
  "#f9d3d0",
  "#f2a7a1",
  "#ea7a72",
  "#e8665d",
  "#d8453b",
  "#c4352b",
  "#b3261e",
  "#931c16",
  "#73130f",
];

export const theme = createTheme({
  colors: { verdigris, dark, red },
  primaryColor: "verdigris",
  primaryShade: 7,
  defaultRadius: "sm",
  radius: { sm: "6px", md: "10px" },
  fontFamily:
    'ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif',
  fontFamilyMonospace:
    'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", "Liberation Mono", monospace',
  headings: { fontWeight: "650" },
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    // Icon-only buttons need a name. Plain objects suffice, so the components load only when needed.
    Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    PasswordInput: { defaultProps: { visibilityToggleButtonProps: { "aria-label": "Show the text" } } },
  },
});

/** Colours of both schemes. Mantine's own grey for secondary text is too faint on white. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-body": "#f5f4ef",
    "--mantine-color-text": "#1b2220",
    "--mantine-color-dimmed": "#586360",
    "--mantine-color-placeholder": "#6b7572",
    "--mantine-color-default-border": "#d6d5cc",
    "--mantine-color-error": "#b3261e",
  },
  dark: {
    "--mantine-color-default-border": "#4a5753",
    "--mantine-color-dimmed": "#9aa6a2",
    "--mantine-color-placeholder": "#85918d",
    "--mantine-color-error": "#ff9d96",
  },
});
