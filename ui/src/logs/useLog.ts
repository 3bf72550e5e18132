import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { type LiveState, Stream } from "../live/stream";
import { LogBuffer, type Origin } from "./LogBuffer";

/** Follow a job's log. `running` means that more may come, so an early end is a restart of the service. */
export function useLog(
  jobId: string,
  running: boolean,
): { log: LogBuffer; version: number; state: LiveState } {
  const [log, setLog] = useState(() => new LogBuffer());
  const [state, setState] = useState<LiveState>("connecting");
  const mayGoOn = useRef(running);
  mayGoOn.current = running;

  useEffect(() => {
    const buffer = new LogBuffer();
    setLog(buffer);
    const stream = new Stream({
      url: (position) => `/api/v1/jobs/${jobId}/logs${position ? `?offset=${position}` : ""}`,
      on: {
        log: (data) => {
          const { text, ...origin } = JSON.parse(data) as { text: string } & Origin;
          buffer.append(text, origin);
        },
        end: () => {
          if (mayGoOn.current) {
            stream.reconnectSoon();
          } else {
            stream.stop();
            buffer.end();
          }
        },
      },
      onState: setState,
    });
    stream.start();
    return () => stream.stop();
  }, [jobId]);

  const version = useSyncExternalStore(log.subscribe, log.version);
  return { log, version, state };
}
