interface Props {
  label: string;
  checked: boolean;
  /** Only some of the checkbox's items are selected. */
  partly?: boolean;
  disabled?: boolean;
  onChange: () => void;
}

/** The browser's own checkbox. Fast scrolling draws hundreds of them per second. */
export function Tick({ label, checked, partly = false, disabled = false, onChange }: Props) {
  return (
    <input
      type="checkbox"
      aria-label={label}
      checked={checked}
      disabled={disabled}
      onChange={onChange}
      ref={(box) => {
        if (box) box.indeterminate = partly;
      }}
    />
  );
}
