import { Menu } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { cordonGpu, drainGpu, resetGpu, returnGpu } from "../../api/commands";
import { holdersQuery } from "../../api/queries";
import type { Gpu } from "../../api/types";
import { tellWithUndo } from "../../components/tellWithUndo";
import { GuardedItem } from "../../may/GuardedItem";
import { useWhyNot } from "../../may/useMay";
import { Confirm } from "../../shell/Confirm";
import classes from "./GpuRows.module.css";
import { Draining } from "./HostDialogs";
import { useAfterChange } from "./useAfterChange";
import { whyNoReset } from "./whyNoReset";

/** Menu of actions for a GPU. It is created when opened, because there are hundreds of GPUs. */
export function GpuMenu({ gpu }: { gpu: Gpu }) {
  const [used, setUsed] = useState(false);
  const name = `GPU ${gpu.index} of ${gpu.host}`;
  const label = `More for ${name}`;
  if (used) return <Opened gpu={gpu} name={name} label={label} onClose={() => setUsed(false)} />;
  return (
    <button
      type="button"
      className={classes.more}
      aria-label={label}
      aria-haspopup="menu"
      onClick={() => setUsed(true)}
    >
      …
    </button>
  );
}

interface Props {
  gpu: Gpu;
  name: string;
  label: string;
  onClose: () => void;
}

function Opened({ gpu, name, label, onClose }: Props) {
  const [asking, setAsking] = useState<"menu" | "drain" | "reset" | null>("menu");
  const whyNot = useWhyNot("change_hosts");
  const { data: holders } = useQuery({ ...holdersQuery, enabled: asking === "drain" });
  const after = useAfterChange(onClose);
  const back = useMutation({ mutationFn: returnGpu, ...after });
  const cordon = useMutation({
    mutationFn: cordonGpu,
    onSuccess: () => tellWithUndo(`${name} takes no new jobs.`, () => back.mutate(gpu)),
    ...after,
  });
  const drain = useMutation({ mutationFn: drainGpu, ...after });
  const reset = useMutation({ mutationFn: resetGpu, ...after });
  return (
    <>
      <Menu
        opened={asking === "menu"}
        onChange={(opened) => !opened && setAsking((now) => (now === "menu" ? null : now))}
        onExitTransitionEnd={() => asking === null && !cordon.isPending && !back.isPending && onClose()}
        position="bottom-end"
        withinPortal
      >
        <Menu.Target>
          <button type="button" className={classes.more} aria-label={label}>
            …
          </button>
        </Menu.Target>
        <Menu.Dropdown>
          {(gpu.cordoned || gpu.fault) && (
            <GuardedItem whyNot={whyNot} onClick={() => back.mutate(gpu)}>
              Return to service
            </GuardedItem>
          )}
          {!gpu.cordoned && (
            <GuardedItem whyNot={whyNot} onClick={() => cordon.mutate(gpu)}>
              Cordon: its job continues, no others start
            </GuardedItem>
          )}
          {gpu.drain_until === null && (
            <GuardedItem whyNot={whyNot} onClick={() => setAsking("drain")}>
              Drain: its job moves to other GPUs
            </GuardedItem>
          )}
          <GuardedItem whyNot={whyNot ?? whyNoReset(gpu)} color="red" onClick={() => setAsking("reset")}>
            Reset
          </GuardedItem>
        </Menu.Dropdown>
      </Menu>
      {asking === "drain" && (
        <Draining
          what={name}
          kind="GPU"
          jobs={holders?.filter((job) => gpu.jobs.includes(job.id))}
          pending={drain.isPending}
          onDrain={(seconds) => drain.mutate({ gpu, seconds })}
          onClose={onClose}
        />
      )}
      {asking === "reset" && (
        <Confirm
          title={`Reset ${name}?`}
          action="Reset the GPU"
          pending={reset.isPending}
          onConfirm={() => reset.mutate(gpu)}
          onClose={onClose}
        >
          nvidia-smi resets it on its host, and its errors are cleared. No job starts on it meanwhile.
          Readings of this host's other GPUs pause for some seconds; their jobs continue.
        </Confirm>
      )}
    </>
  );
}
