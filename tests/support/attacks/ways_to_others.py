"""Run in a job's container as its root: looks for what is of other jobs, of the service and of the host, and prints as
JSON what it found. MARK: a word that stands in all that it must not see, in two parts, so that it is not in our own
environment. GATEWAY, PORT: of the service. LOOPBACK_PORT: of a server on the host's loopback. DATA: a data set."""

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request

MARK = (os.environ["MARK_A"] + os.environ["MARK_B"]).encode()
GATEWAY, PORT = os.environ["GATEWAY"], int(os.environ["PORT"])
_OUR_OWN = ("/proc", "/sys", "/opt/venv", "/usr", "/lib")  # processes are looked at below, and the image is not secret
_LARGEST = 64 << 20


def marked_files() -> "list[str]":
    """Files anywhere that hold the mark."""
    found = []
    for folder, folders, names in os.walk("/"):
        folders[:] = [each for each in folders if not os.path.join(folder, each).startswith(_OUR_OWN)]
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST:
                    with open(path, "rb") as file:
                        if MARK in file.read():
                            found.append(path)
            except OSError:
                continue
    return found


def marked_processes() -> "list[str]":
    """Processes whose variables or words hold the mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if MARK in file.read():
                        found.append(pid)
            except OSError:
                continue
    return found


def connects(host: str, port: int) -> bool:
    with socket.socket() as connection:
        connection.settimeout(5)
        return connection.connect_ex((host, port)) == 0


def asked(path: str, host: str, method: str = "GET", token: str = "") -> str:
    """The code of the problem that the service answers with."""
    url = f"http://{GATEWAY}:{PORT}{path}"
    headers = {"Host": host, "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    request = urllib.request.Request(url, data=b"{}" if method == "POST" else None, headers=headers, method=method)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return "open: " + answer.read(200).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return str(json.loads(error.read())["code"])


def written(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "written"), "w") as file:
            file.write("by a job")
    except OSError:
        return False
    return True


own_token = os.environ["SCHEDULEARN_JOB_TOKEN"]
forged = os.environ["VICTIM"] + "." + own_token.partition(".")[2]
hosts = (f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"{GATEWAY}:{PORT}")
sdk = next(path for path in os.environ["PYTHONPATH"].split(":") if "schedulearn" in path)
# What is looked for is found where it can be seen.
os.makedirs("/control")
with open("/control/file", "wb") as control:
    control.write(MARK)
child = subprocess.Popen(["sleep", "1000"], env={"CONTROL": MARK.decode()})
found = {
    "files": marked_files(),
    "processes": ["control" if pid == str(child.pid) else pid for pid in marked_processes()],
    "host's loopback": [host for host in ("127.0.0.1", GATEWAY) if connects(host, int(os.environ["LOOPBACK_PORT"]))],
    "API": sorted({asked(path, host) for path in ("/api/v1/jobs", "/metrics", "/jobs") for host in hosts}),
    "API by a job's token": sorted({asked("/api/v1/jobs", host, token=own_token) for host in hosts}),
    "a job of its own making": asked("/api/v1/jobs", hosts[0], "POST"),
    "reports of another job": asked("/api/v1/reports", hosts[0], "POST", forged),
    "its own report": asked("/api/v1/reports", hosts[0], "POST", own_token),
    "written": [folder for folder in (os.environ["DATA"], sdk) if written(folder)],
    "data": sorted(os.listdir(os.environ["DATA"])),
}
child.kill()
child.wait()
print(json.dumps(found), flush=True)
