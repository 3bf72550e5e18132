import { ActionIcon, Anchor, Button, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { fileAddress, isPicture, textOf } from "../../api/fileKind";
import { filesQuery, fileTextQuery } from "../../api/queries";
import type { JobFile } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { When } from "../../format/Elapsed";
import { size } from "../../format/size";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import classes from "./Files.module.css";

const SIZE = (
  <span key="size" className={classes.number}>
    Size
  </span>
);

/** Outputs and checkpoints of the job. The address names the folder and the file shown. */
export default function Files({ id }: { id: string }) {
  const [address, setAddress] = useSearchParams();
  const folder = address.get("path") ?? "outputs";
  const shown = address.get("file") ?? "";
  const files = useQuery(filesQuery(id, folder));
  const open = (path: string) => setAddress({ tab: "files", path });
  const show = (file: string) => setAddress({ tab: "files", path: folder, file }, { replace: true });
  const file = files.data?.items.find((item) => item.path === shown);

  return (
    <div className={panel.stack}>
      <Panel
        title="Files"
        action={
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => files.refetch()}
            loading={files.isFetching}
          >
            Refresh
          </Button>
        }
      >
        <Way folder={folder} open={open} />
        <Loaded query={files} title="The files can't be read">
          {({ items, hosts, away, next }) => (
            <>
              {items.length === 0 ? (
                <Text size="sm" c="dimmed">
                  No files yet. This shows files that the job writes to /outputs (SCHEDULEARN_OUTPUT_DIR).
                </Text>
              ) : (
                <DataTable
                  columns={["Name", SIZE, "Modified", ...(hosts.length > 1 ? ["Host"] : [])]}
                  actions
                >
                  {items.map((item) => (
                    <Row
                      key={item.path}
                      id={id}
                      item={item}
                      several={hosts.length > 1}
                      open={item.kind === "folder" ? open : show}
                    />
                  ))}
                </DataTable>
              )}
              {next && (
                <Text size="sm" c="dimmed">
                  Only the first {items.length} are shown: `schedulearn files ls {id} {folder}` lists all.
                </Text>
              )}
              {away.length > 0 && (
                <Text size="sm" c="dimmed">
                  Files on {away.join(", ")} are not shown, because it does not answer.
                </Text>
              )}
            </>
          )}
        </Loaded>
      </Panel>
      {file && file.kind !== "folder" && <Shown id={id} file={file} />}
    </div>
  );
}

/** Path of the folder shown, with links to its parent folders. */
function Way({ folder, open }: { folder: string; open: (path: string) => void }) {
  const parts = folder.split("/");
  const other = parts[0] === "outputs" ? "checkpoints" : "outputs";
  return (
    <p className={classes.way}>
      {parts.map((name, index) => {
        const path = parts.slice(0, index + 1).join("/");
        return (
          <span key={path}>
            {index > 0 && " / "}
            {index === parts.length - 1 ? (
              <b>{name}</b>
            ) : (
              <Anchor component="button" type="button" size="sm" onClick={() => open(path)}>
                {name}
              </Anchor>
            )}
          </span>
        );
      })}
      <span>
        {" · "}
        <Anchor component="button" type="button" size="sm" onClick={() => open(other)}>
          {other}
        </Anchor>
      </span>
    </p>
  );
}

interface RowProps {
  id: string;
  item: JobFile;
  several: boolean;
  open: (path: string) => void;
}

function Row({ id, item, several, open }: RowProps) {
  const what = item.kind === "folder" ? "as a tar archive" : "";
  return (
    <tr>
      <td>
        <Anchor component="button" type="button" size="sm" onClick={() => open(item.path)}>
          {item.name}
          {item.kind === "folder" && "/"}
        </Anchor>
      </td>
      <td>
        <span className={classes.number}>{item.size === null ? "" : size(item.size)}</span>
      </td>
      <td className={panel.nowrap}>{item.modified && <When at={item.modified} />}</td>
      {several && <td>{item.host}</td>}
      <td>
        <Tooltip label={`Download ${what}`.trim()}>
          <ActionIcon
            component="a"
            href={fileAddress(id, item.path)}
            download
            variant="subtle"
            aria-label={`Download ${item.name} ${what}`.trim()}
          >
            <Icon name="download" />
          </ActionIcon>
        </Tooltip>
      </td>
    </tr>
  );
}

/** Preview of an image or the beginning of a text. Other files can only be downloaded. */
function Shown({ id, file }: { id: string; file: JobFile }) {
  const bytes = file.size ?? 0;
  return (
    <Panel title={file.name}>
      {isPicture(file.name, bytes) ? (
        <img src={fileAddress(id, file.path)} alt={file.name} className={classes.picture} />
      ) : (
        <Beginning id={id} path={file.path} bytes={bytes} />
      )}
    </Panel>
  );
}

function Beginning({ id, path, bytes }: { id: string; path: string; bytes: number }) {
  const beginning = useQuery(fileTextQuery(id, path, bytes));
  return (
    <Loaded query={beginning} title="The file can't be read">
      {(data) => {
        const text = textOf(data);
        return text === null ? (
          <Text size="sm" c="dimmed">
            Not a text or a picture: download it to view it.
          </Text>
        ) : (
          <>
            <pre className={panel.code}>{text}</pre>
            {bytes > data.length && (
              <Text size="sm" c="dimmed">
                The first {size(data.length)} of {size(bytes)}.
              </Text>
            )}
          </>
        );
      }}
    </Loaded>
  );
}
