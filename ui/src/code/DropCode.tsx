import { Button, FileButton, Group, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type DragEvent, useRef, useState } from "react";
import { codeLimits, sendCode } from "../api/commands";
import { plural } from "../format/number";
import { size } from "../format/size";
import { Icon } from "../shell/Icon";
import { NotDone } from "../shell/NotDone";
import { tarOf } from "./archive";
import classes from "./DropCode.module.css";
import { dropped, type Node, type Picked, pick, selected } from "./folder";

export interface SentCode {
  digest: string;
  picked: Picked;
  /** Image for jobs that name none. */
  image: string;
}

interface Props {
  /** Digest of the job's code; empty: none. */
  digest: string;
  onSent: (sent: SentCode) => void;
  onRemove: () => void;
}

async function send(nodes: Node[]): Promise<SentCode> {
  const limits = await codeLimits();
  const picked = await pick(nodes, limits);
  const { digest } = await sendCode(tarOf(picked.files));
  return { digest, picked, image: limits.default_image };
}

/** Drop zone and file picker for the code that the job runs. */
export function DropCode({ digest, onSent, onRemove }: Props) {
  const [over, setOver] = useState(false);
  const folder = useRef<HTMLInputElement>(null);
  const sending = useMutation({ mutationFn: send, onSuccess: onSent });
  const sent = sending.data?.digest === digest ? sending.data.picked : null;

  function onDrop(event: DragEvent) {
    event.preventDefault();
    setOver(false);
    const nodes = dropped(event.dataTransfer);
    if (nodes.length > 0) sending.mutate(nodes);
  }

  return (
    <fieldset
      className={classes.zone}
      aria-label="Code"
      data-over={over}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <Group gap="sm">
        {digest === "" ? (
          <Text size="sm" className={classes.text}>
            Drop a folder or a file here to run the job in it.{" "}
            <span className={classes.note}>Without it, the job uses only its image.</span>
          </Text>
        ) : (
          <Text size="sm" className={classes.text} role="status">
            <Icon name="check" size={14} />{" "}
            {sent ? (
              <>
                <strong>{sent.name}</strong>: {plural(sent.files.length, "file")}, {size(sent.bytes)}
                {sent.ignored > 0 && `, ${sent.ignored} skipped by ignore rules`}
              </>
            ) : (
              "Uses code that was sent earlier"
            )}{" "}
            <code className="mono" title={digest}>
              {digest.slice(0, 19)}
            </code>
          </Text>
        )}
        <Group gap={8} ml="auto">
          {digest !== "" && (
            <Button size="xs" variant="subtle" onClick={onRemove}>
              Remove the code
            </Button>
          )}
          <input
            ref={folder}
            type="file"
            hidden
            data-testid="code-folder"
            {...{ webkitdirectory: "" }}
            onChange={(event) => {
              const files = [...(event.currentTarget.files ?? [])];
              event.currentTarget.value = ""; // allows choosing the same folder again after an edit
              if (files.length > 0) sending.mutate(selected(files));
            }}
          />
          <Button
            size="xs"
            variant="default"
            loading={sending.isPending}
            onClick={() => folder.current?.click()}
          >
            Choose a folder
          </Button>
          <FileButton onChange={(files) => files.length > 0 && sending.mutate(selected(files))} multiple>
            {(props) => (
              <Button size="xs" variant="default" disabled={sending.isPending} {...props}>
                Choose files
              </Button>
            )}
          </FileButton>
        </Group>
      </Group>
      {sending.error && (
        <NotDone title="The code was not sent" error={sending.error} again="Send the code again." />
      )}
    </fieldset>
  );
}
