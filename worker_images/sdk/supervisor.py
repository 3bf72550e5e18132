"""Supervisor that runs a command as a container's first process.

    python3 -I -S supervisor.py COMMAND...

After SIGTERM it waits for all processes of the container. An init ends with its command, and the kernel then kills
everything else in the container. A shell dies of SIGTERM at once, so a training that it started would never save. After
SIGTERM this supervisor ends with the last process; the engine kills what is left when the grace period is over. When
the command ends without SIGTERM, the supervisor does not wait.

It runs by its path, without site-packages, in images of any age: Python 3.6, standard library only. Each container
waits for its start, so it imports little: `typing` would take a third of the start. The supervisor of local tasks and
the launcher of elastic jobs import `Stop`.
"""

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Optional, Set

LOOK_S = 0.1
READ_S = 1.0
"""Seconds for which readers may go on reading after the process they read from has ended."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
JOINING = "SCHEDULEARN_JOINING"
"""Variable with the folder in which workers note whether they joined a process group (joining.py)."""
ALONE = b"schedulearn: WARNING: its workers worked each for itself: none joined a process group"
_RESTORED = ("SIGPIPE", "SIGXFSZ")  # Python ignores them, and a program that it starts inherits that
_PASSED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGCONT")


class Process:
    def __init__(self, pid: int, parent: int, group: int, session: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session


class Stop:
    """SIGTERM for a process group, and the wait for everything that it started.

    Making the object sends the signal. Processes that read another one's output get it last. Otherwise, with `train |
    tee log`, the training could print nothing more, and would fail before it has saved. Processes outside the group get
    it when the group has ended: until then its launchers signal their own workers.
    """

    def __init__(self, group: int, find: "Callable[[], Iterable[Process]]") -> None:
        """`find` lists the live processes of the task, those that left the group included."""
        self._group = group
        self._find = find
        self._told_groups = {group}
        self._saved_at = time.monotonic()
        members = [each.pid for each in find() if each.group == group]
        self._savers = [pid for pid in members if _catches_sigterm(pid)]
        held = _readers(self._savers, members)
        self._told = set(members) - held
        if held:
            for pid in self._told:
                _send(os.kill, pid)
        else:
            _send(os.killpg, group)

    def goes_on(self) -> bool:
        """Return whether a process is left. Call it repeatedly: it sends the signals that are due."""
        left = list(self._find())
        if any(_exists(os.kill, pid) for pid in self._savers):
            self._saved_at = time.monotonic()
        elif time.monotonic() - self._saved_at > READ_S:
            # Readers that do not end with their input, and processes that began after the signal.
            for pid in {each.pid for each in left if each.group == self._group} - self._told:
                self._told.add(pid)
                _send(os.kill, pid)
        if not _exists(os.killpg, self._group):
            for other in {each.group for each in left} - self._told_groups:
                self._told_groups.add(other)
                _send(os.killpg, other)
        return bool(left)


def worked_alone(folder: str) -> bool:
    """Whether workers of a job ended without having joined each other."""
    try:
        notes = os.listdir(folder)
    except OSError:
        return False
    return "alone" in notes and "joined" not in notes


def processes() -> "List[Process]":
    """All live processes of this machine or container."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The second field is the program's name in brackets, and may itself hold brackets and spaces.
                    state, parent, group, session = file.read().rpartition(b")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # it has ended
            if state not in (b"Z", b"X"):
                found.append(Process(int(name), int(parent), int(group), int(session)))
    return found


def descendants(ancestor: int) -> "List[Process]":
    """All live descendants of a process."""
    below: Dict[int, List[Process]] = {}
    for each in processes():
        below.setdefault(each.parent, []).append(each)
    found: List[Process] = []
    ahead = [ancestor]
    while ahead:
        children = below.get(ahead.pop(), [])
        found += children
        ahead += [child.pid for child in children]
    return found


def of_container() -> "List[Process]":
    """All processes of this container except its init, this one, and those that people run by `exec`."""
    found = processes()
    entered = {each.session for each in found if each.parent == 0 and each.pid != 1 and each.pid == each.session}
    return [each for each in found if each.pid not in (1, os.getpid()) and each.session not in entered]


def _catches_sigterm(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = next((line for line in file if line.startswith(b"SigCgt:")), b"SigCgt: 0")
    except OSError:
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _readers(savers: "Iterable[int]", members: "Iterable[int]") -> "Set[int]":
    """Return the `members` that read from a saver through pipes and are no savers themselves."""
    writing = {pid: {_pipe(pid, 1), _pipe(pid, 2)} for pid in members}
    reading = {pid: _pipe(pid, 0) for pid in members}
    known = set(savers)
    found: Set[int] = set()
    while True:
        written = {pipe for pid in known for pipe in writing.get(pid, ()) if pipe is not None}
        new = {pid for pid, pipe in reading.items() if pipe in written} - known
        if not new:
            return found
        known |= new
        found |= new


def _pipe(pid: int, number: int) -> "Optional[str]":
    try:
        target = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return None
    return target if target.startswith("pipe:") else None


def _send(send: "Callable[[int, int], None]", target: int) -> None:
    try:
        send(target, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        pass


def _exists(send: "Callable[[int, int], None]", target: int) -> bool:
    """Ask the kernel whether `target` exists.

    A list of processes is made step by step, and may miss one that gets another parent meanwhile."""
    try:
        send(target, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def main(command: "List[str]") -> int:
    notes = _folder_for_notes()
    passed_on = {getattr(signal, name) for name in _PASSED_ON}
    signals = {signal.SIGTERM, signal.SIGCHLD} | passed_on
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    pid = os.fork()
    if pid == 0:
        _become(command, signals)
    status: Optional[int] = None
    stop: Optional[Stop] = None
    looks = 0  # consecutive checks that found nothing
    while True:
        received = signal.sigtimedwait(signals, LOOK_S if stop is not None else 3600.0)
        number = received.si_signo if received is not None else 0
        if number == signal.SIGTERM:
            stop = stop or Stop(pid, of_container)
        elif number in passed_on and status is None:
            try:
                os.killpg(pid, number)
            except (ProcessLookupError, PermissionError):
                pass
        if status is None:
            ended, code = os.waitpid(pid, os.WNOHANG)
            status = code if ended else None
        looks = 0 if stop is not None and stop.goes_on() else looks + 1
        if status is not None and (stop is None or looks > 1 or not _exists(os.kill, -1)):
            if status == 0 and notes and worked_alone(notes):
                os.write(2, ALONE + b"\n")
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _folder_for_notes() -> "Optional[str]":
    for parent in ("/dev/shm", "/tmp"):  # noqa: S108 - a data set may be at the second
        folder = f"{parent}/.schedulearn-joining"
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            continue
        os.environ[JOINING] = folder
        return folder
    return None


def _become(command: "List[str]", signals: "Set[signal.Signals]") -> None:
    """Replace the child process by the command. Never returns."""
    code, error = NOT_EXECUTABLE, ""
    try:
        os.setsid()
        for name in _RESTORED:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        os.execvp(command[0], command)  # noqa: S606 - never a shell
    except (FileNotFoundError, NotADirectoryError):
        code, error = NOT_FOUND, "command not found"
    except OSError as reason:
        error = str(reason.strerror)
    finally:
        os.write(2, f"schedulearn: {command[0]}: {error}\n".encode())
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
