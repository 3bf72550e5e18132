/** Connection to one command in a running job, by `WS /api/v1/jobs/{id}/exec`. */

interface Size {
  columns: number;
  rows: number;
}

interface Listener {
  output: (data: Uint8Array) => void;
  opened: (idleAfter: number) => void;
  /** Called once with a sentence that says how it ended. */
  ended: (how: string) => void;
}

/** Storage for a shell's id, so that a reload finds it again. */
interface Memory {
  read: () => string | null;
  write: (id: string | null) => void;
}

/** Return the storage of this browser tab. Other tabs have their own shells. */
export const memoryOf = (jobId: string): Memory => {
  const key = `schedulearn.shell.${jobId}`;
  return {
    read: () => sessionStorage.getItem(key),
    write: (id) => (id === null ? sessionStorage.removeItem(key) : sessionStorage.setItem(key, id)),
  };
};

type Told =
  | { opened: { rank: number; idle_after: number; id?: string } }
  | { exit_code: number }
  | { problem: { code: string; detail: string } };

const PIECE = 32 * 1024;

export class Connection {
  private socket: WebSocket;
  private readonly encoder = new TextEncoder();
  private over = false;
  private began = false;
  /** Input typed before the shell opened. */
  private early = "";

  constructor(
    private readonly jobId: string,
    private readonly rank: number | null,
    private readonly size: Size,
    private readonly memory: Memory,
    private readonly listener: Listener,
  ) {
    this.socket = this.open(memory.read());
  }

  /** Open a stored shell, or a new one. */
  private open(kept: string | null): WebSocket {
    const { jobId, rank, size } = this;
    const address = new URL(`/api/v1/jobs/${encodeURIComponent(jobId)}/exec`, window.location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () =>
      this.tell(kept === null ? { command: [], rank, terminal: size, keep: true } : { resume: kept });
    socket.onmessage = ({ data }) => this.hear(data);
    socket.onclose = () => {
      if (socket !== this.socket) return;
      this.end(
        this.began
          ? "The connection was lost. The shell continues for some minutes: reload the page to reconnect."
          : "Only the job's user and admins may open a terminal.",
      );
    };
    return socket;
  }

  write(text: string) {
    if (!this.began) {
      this.early = (this.early + text).slice(0, PIECE);
      return;
    }
    const data = this.encoder.encode(text);
    for (let start = 0; start < data.length; start += PIECE) this.send(data.slice(start, start + PIECE));
  }

  resize(size: Size) {
    if (this.began) this.tell({ resize: size });
  }

  /** End the shell. A page reload does not call this, so the shell stays alive for a while. */
  close() {
    this.over = true;
    this.memory.write(null);
    this.tell({ end: true });
    this.socket.close();
  }

  private tell(message: object) {
    this.send(JSON.stringify(message));
  }

  private send(message: string | Uint8Array<ArrayBuffer>) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(message);
  }

  private hear(data: string | ArrayBuffer) {
    if (typeof data !== "string") {
      this.listener.output(new Uint8Array(data, 1));
      return;
    }
    const told: Told = JSON.parse(data);
    if ("opened" in told) {
      this.began = true;
      this.memory.write(told.opened.id ?? null);
      this.listener.opened(told.opened.idle_after);
      this.write(this.early);
    } else if ("exit_code" in told) {
      this.memory.write(null);
      this.end(`The shell ended with exit code ${told.exit_code}.`);
    } else if (told.problem.code === "not_found" && this.memory.read() !== null && !this.began) {
      this.memory.write(null); // it has ended meanwhile
      this.socket = this.open(null);
    } else {
      if (this.began) this.memory.write(null);
      this.end(told.problem.detail);
    }
  }

  private end(how: string) {
    if (this.over) return;
    this.over = true;
    this.listener.ended(how);
  }
}
