/** One command in a running job: the socket of `WS /api/v1/jobs/{id}/exec`. */

export interface Size {
  columns: number;
  rows: number;
}

interface Listener {
  output: (data: Uint8Array) => void;
  opened: (idleAfter: number) => void;
  /** Told once: how it ended, as a sentence. */
  ended: (how: string) => void;
}

type Told =
  | { opened: { rank: number; idle_after: number } }
  | { exit_code: number }
  | { problem: { code: string; detail: string } };

const PIECE = 32 * 1024;

export class Connection {
  private readonly socket: WebSocket;
  private readonly encoder = new TextEncoder();
  private over = false;
  private began = false;
  /** What was typed before there was a shell. */
  private early = "";

  constructor(
    jobId: string,
    rank: number | null,
    size: Size,
    private readonly listener: Listener,
  ) {
    const address = new URL(`/api/v1/jobs/${encodeURIComponent(jobId)}/exec`, window.location.href);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.tell({ command: [], rank, terminal: size });
    this.socket.onmessage = ({ data }) => this.hear(data);
    this.socket.onclose = () =>
      this.end(
        this.began
          ? "The connection broke, and what ran here has been ended. The job goes on."
          : "The service refused: only the job's user and admins may open a terminal.",
      );
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

  close() {
    this.over = true;
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
      this.listener.opened(told.opened.idle_after);
      this.write(this.early);
    } else if ("exit_code" in told) {
      this.end(`The shell ended with ${told.exit_code}.`);
    } else {
      this.end(told.problem.detail);
    }
  }

  private end(how: string) {
    if (this.over) return;
    this.over = true;
    this.listener.ended(how);
  }
}
