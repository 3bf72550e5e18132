"""Run in a job's container as its root: tries each way out, and prints as JSON what became of it."""

import ctypes
import json
import os
import socket
import stat
import threading

libc = ctypes.CDLL(None, use_errno=True)
CAPABILITY_NAMES = {0: "CHOWN", 1: "DAC_OVERRIDE", 3: "FOWNER", 5: "KILL", 6: "SETGID", 7: "SETUID"}


def call(name: str, *arguments: object) -> None:
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def device() -> None:
    os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))


def memory() -> None:
    for path in ("/dev/mem", "/dev/kmem", "/proc/kcore", "/dev/kmsg"):
        try:
            with open(path, "rb") as file:
                if file.read(16):
                    return
        except OSError:
            continue
    raise PermissionError("no memory of the host")


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def kernel_settings() -> None:
    with open("/proc/sys/kernel/core_pattern") as file:
        now = file.read()
    write("/proc/sys/kernel/core_pattern", now)


def host_names() -> None:
    call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)


def engine() -> None:
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(path)
            except OSError:
                continue
            return
    raise PermissionError("no engine answers")


def low_port() -> None:
    # Docker lets everybody bind low ports in a network of the container's own: only the host's are the host's.
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
        if int(file.read()) == 0:
            raise PermissionError("a network of its own")
    with socket.socket() as listener:
        listener.bind(("", 1001))


def file_capabilities() -> None:
    write("/tmp/program", "")
    os.setxattr("/tmp/program", "security.capability", bytes.fromhex("0100000200200000002000000000000000000000"))


ATTACKS = {
    "raw packets": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close(),
    "forged packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300).close(),
    "a device of the host": device,
    "its memory": memory,
    "another file system": lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None),
    "another root": lambda: os.chroot("/tmp"),
    "a name space of its own": lambda: call("unshare", 0x10000000 | 0x00020000),
    "the name spaces of the host": host_names,
    "settings of the kernel": kernel_settings,
    "the reset of the machine": lambda: write("/proc/sysrq-trigger", "h"),
    "a module of the kernel": lambda: call("syscall", 313, 0, b"", 0),
    "the clock": lambda: call("settimeofday", bytes(16), None),
    "its name": lambda: call("sethostname", b"taken", 5),
    "the engine": engine,
    "a port below 1024 of the host": low_port,
    "capabilities of a file": file_capabilities,
}


def outcome(attack: object) -> str:
    """In a process of its own: what an attack has reached, the next one has not."""
    words, end = os.pipe()
    if os.fork() == 0:
        try:
            attack()  # type: ignore[operator]
            os.write(end, b"open")
        except OSError as error:
            os.write(end, str(error).encode())
        os._exit(0)
    os.close(end)
    with open(words) as told:
        said = told.read()
    os.wait()
    return said or "it crashed"


def status() -> "dict[str, str]":
    with open("/proc/self/status") as file:
        return dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)


def capabilities() -> "list[str]":
    bits = int(status()["CapBnd"], 16)
    return [CAPABILITY_NAMES.get(bit, str(bit)) for bit in range(64) if bits >> bit & 1]


def files() -> str:
    path = os.environ["SCHEDULEARN_CHECKPOINT_DIR"] + "/checkpoint"
    write(path, "weights")
    os.chmod(path, 0o600)
    os.chown(path, 1234, 1234)
    with open(path) as file:
        assert file.read() == "weights"
    return "written, given away, and read where another owns them"


def threads() -> int:
    """How many there can be, up to 20,000."""
    threading.stack_size(64 << 10)
    over = threading.Event()
    started = 0
    try:
        for _ in range(20_000):
            threading.Thread(target=over.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    over.set()
    return started


found = {
    "uid": os.getuid(),
    "attacks": {name: outcome(attack) for name, attack in ATTACKS.items()},
    "no_new_privileges": status()["NoNewPrivs"] == "1",
    "seccomp": status()["Seccomp"] == "2",
    "capabilities": capabilities(),
    "files": files(),
    "threads": threads(),
}
print(json.dumps(found), flush=True)
os._exit(0)
