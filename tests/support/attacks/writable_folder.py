"""Run in a job's container that may write a folder of its host: tries to become root there, or somebody else.

Prints as JSON what became of each attack.
"""

import ctypes
import json
import os
import shutil
import stat
import subprocess

libc = ctypes.CDLL(None, use_errno=True)
FOLDER = os.environ["FOLDER"]
PROGRAM = "/bin/sh"
MARK = os.environ.get("MARK", "job")


def mine(name: str) -> str:
    return os.path.join(FOLDER, f"{MARK}-{name}")


def planted(name: str) -> str:
    path = mine(name)
    shutil.copyfile(PROGRAM, path)
    return path


def setuid_root_by_chown() -> None:
    path = planted("chowned")
    os.chown(path, 0, 0)
    os.chmod(path, 0o4755)


def given_away() -> None:
    os.chown(planted("given"), 5555, -1)


def given_to_a_group() -> None:
    os.chown(planted("group"), -1, 0)


def setgid_of_another_group() -> None:
    path = planted("setgid")
    os.chown(path, -1, 42)
    os.chmod(path, 0o2755)


def become(call: str, number: int) -> None:
    getattr(os, call)(number)


def capabilities_of_a_file() -> None:
    path = planted("capable")
    os.setxattr(path, "security.capability", bytes.fromhex("0100000280000000000000000000000000000000"))


def device() -> None:
    os.mknod(mine("disk"), stat.S_IFBLK | 0o666, os.makedev(8, 0))


def others_file(mode: str) -> None:
    with open(os.path.join(FOLDER, "others"), mode) as file:
        file.read() if mode == "r" else file.write("mine")


def run_as_root() -> None:
    """A setuid program of root that was in the folder before: an old job left it."""
    said = subprocess.run([os.path.join(FOLDER, "old-setuid"), "-p", "-c", "id -u"], capture_output=True, text=True)
    if said.stdout.strip() != "0":
        raise PermissionError(f"it ran as {said.stdout.strip() or said.stderr.strip()}")


def switch_user() -> None:
    said = subprocess.run(["su", "-c", "id -u"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if said.stdout.strip() != "0":
        raise PermissionError(said.stderr.strip())


def mapped_root() -> None:
    """In a name space of its own one is root, also of files that others see."""
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def mount_again() -> None:
    if libc.mount(b"none", FOLDER.encode(), None, 0x1020, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


ATTACKS = {
    "a setuid program of root, by chown": setuid_root_by_chown,
    "a file given to another": given_away,
    "a file given to root's group": given_to_a_group,
    "a setgid program of another group": setgid_of_another_group,
    "root, by setuid": lambda: become("setuid", 0),
    "another user": lambda: become("setuid", 5555),
    "another group": lambda: become("setgid", 0),
    "further groups": lambda: os.setgroups([0, 42]),
    "a program with capabilities": capabilities_of_a_file,
    "a device in the folder": device,
    "another's file, written": lambda: others_file("a"),
    "another's file, read": lambda: others_file("r"),
    "another's file, with other rights": lambda: os.chmod(os.path.join(FOLDER, "others"), 0o777),
    "another's file, by a second name": lambda: os.link(os.path.join(FOLDER, "others"), mine("others")),
    "another's folder": lambda: open(os.path.join(FOLDER, "others-folder", "file"), "w").close(),
    "another's file, removed": lambda: os.unlink(os.path.join(FOLDER, "others-folder", "kept")),
    "a setuid program of root that was there": run_as_root,
    "root, by su": switch_user,
    "a name space of users": mapped_root,
    "a mount without its options": mount_again,
}  # fmt: skip


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


with open(mine("file"), "w") as written:
    written.write("by the job")
own = planted("own-setuid")
os.chmod(own, 0o6755)
found = {
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid(), sorted(os.getgroups())],
    "capabilities": {name: int(status()[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "no_new_privileges": status()["NoNewPrivs"] == "1",
    "attacks": {name: outcome(attack) for name, attack in ATTACKS.items()},
}
print(json.dumps(found), flush=True)
