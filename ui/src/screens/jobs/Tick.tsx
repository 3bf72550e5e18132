interface Props {
  label: string;
  checked: boolean;
  /** Some of what it stands for is selected. */
  partly?: boolean;
  disabled?: boolean;
  onChange: () => void;
}

/** The browser's own box: a list that is scrolled fast draws hundreds of them a second. */
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
