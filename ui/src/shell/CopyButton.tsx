import { Button } from "@mantine/core";
import { useState } from "react";
import { Icon } from "./Icon";

/** Copy text to the clipboard. Browsers offer `navigator.clipboard` only on HTTPS and localhost. Elsewhere the older
 * method still works. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={<Icon name={copied ? "check" : "copy"} size={14} />}
      onClick={async () => {
        await copyText(text);
        setCopied(true);
        setTimeout(() => setCopied(false), 1500);
      }}
    >
      {copied ? "Copied" : label}
    </Button>
  );
}
