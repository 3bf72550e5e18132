import "@xterm/xterm/css/xterm.css";
import { NativeSelect, Text } from "@mantine/core";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import type { JobDetail } from "../api/types";
import { Panel } from "../components/Panel";
import { GuardedButton } from "../may/GuardedButton";
import { useWhyNotOf } from "../may/useMay";
import { Connection, memoryOf } from "./connection";
import { withNonce } from "./styles";
import classes from "./TerminalTab.module.css";

/** Shell in a running job. It ends with the job's screen, and continues after a reload. */
export default function TerminalTab({ job }: { job: JobDetail }) {
  const ranks = job.tasks
    .filter((task) => task.state === "running")
    .map((task) => task.rank)
    .sort((a, b) => a - b);
  const [chosen, setChosen] = useState<number | null>(null);
  /** Number of the shell among those opened here; 0: none yet. */
  const [shell, setShell] = useState(() => (memoryOf(job.id).read() === null ? 0 : 1));
  const [ended, setEnded] = useState("");
  const rank = chosen !== null && ranks.includes(chosen) ? chosen : (ranks[0] ?? null);
  const whyNot = useWhyNotOf(job.user);
  const isOpen = shell > 0 && !ended;

  if (rank === null && shell === 0) {
    return (
      <Panel title="Terminal">
        <Text size="sm" c="dimmed">
          A shell can be opened only in a running job. This one is {job.state}.
        </Text>
      </Panel>
    );
  }
  return (
    <Panel title="Terminal">
      <div className={classes.line}>
        {!isOpen && (
          <>
            {ranks.length > 1 && (
              <NativeSelect
                size="xs"
                aria-label="Rank"
                value={String(rank)}
                onChange={(event) => setChosen(Number(event.currentTarget.value))}
                data={ranks.map((each) => ({ value: String(each), label: `rank ${each}` }))}
              />
            )}
            <GuardedButton
              whyNot={whyNot}
              size="compact-sm"
              disabled={rank === null}
              onClick={() => {
                setEnded("");
                setShell(shell + 1);
              }}
            >
              {shell > 0 ? "Open another shell" : "Open a shell"}
            </GuardedButton>
          </>
        )}
        <Text size="sm" c="dimmed" role="status">
          {ended ||
            (isOpen
              ? "F6 leaves it. It ends with all its processes when you leave this job's screen; a reload reconnects to it."
              : "It runs in the job's container, with its files, variables and GPUs. The job's events say who opened it.")}
        </Text>
      </div>
      {shell > 0 && <Shell key={shell} jobId={job.id} rank={rank} onEnd={setEnded} />}
    </Panel>
  );
}

/** Target of the focus on leaving the shell. The shell takes every other key. */
const SELECTED = "[role=tab][aria-selected=true]";

interface ShellProps {
  jobId: string;
  rank: number | null;
  onEnd: (how: string) => void;
}

function Shell({ jobId, rank, onEnd }: ShellProps) {
  const place = useRef<HTMLDivElement>(null);
  const [first] = useState(rank);

  useEffect(() => {
    const here = place.current;
    if (!here) return;
    const terminal = new Terminal({
      cursorBlink: true,
      fontFamily: "ui-monospace, Menlo, Consolas, monospace",
      fontSize: 13,
      scrollback: 5_000,
      theme: { background: "#0d1211", foreground: "#e6e9e7" },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    withNonce(() => terminal.open(here));
    fit.fit();
    terminal.focus();
    const size = () => ({ columns: terminal.cols, rows: terminal.rows });
    const connection = new Connection(jobId, first, size(), memoryOf(jobId), {
      output: (data) => terminal.write(data),
      opened: () => connection.resize(size()),
      ended: (how) => {
        terminal.options.disableStdin = true;
        terminal.options.cursorBlink = false;
        onEnd(how);
      },
    });
    terminal.attachCustomKeyEventHandler((event) => {
      if (event.key !== "F6") return true;
      event.preventDefault(); // otherwise browsers focus the address bar
      if (event.type === "keydown")
        here.closest("[role=tabpanel]")?.parentElement?.querySelector<HTMLElement>(SELECTED)?.focus();
      return false;
    });
    terminal.onData((text) => connection.write(text));
    terminal.onResize(() => connection.resize(size()));
    const watch = new ResizeObserver(() => {
      if (here.clientWidth > 0) fit.fit(); // it has no size while another tab is shown
    });
    watch.observe(here);
    return () => {
      watch.disconnect();
      connection.close();
      terminal.dispose();
    };
  }, [jobId, first, onEnd]);

  return <div ref={place} className={classes.screen} data-testid="terminal" />;
}
