"""Three Docker Engines, each in a network namespace like a host of a lab: h1 by ssh, h2 by TLS, h3 by a socket. Needs
root. The engine of the default namespace is only read from (images), never touched.

They share a bridge; `cut` takes a host's cable away, `kill` and `start` are a crash of its engine and its return.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusters import wait_for
from services import Service

BRIDGE = "schedbr0"
NETWORK = "10.213.7"
NAMES = ("h1", "h2", "h3")


PACKAGES = {"ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl", "sshd": "openssh-server"}
"""Program -> Debian's package."""


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Impossible(Exception):
    """Such hosts can't be had here, and why."""


def run(*words: str | Path, check: bool = True, **options: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=300, **options)  # type: ignore[call-overload]
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return str(done.stdout)


@dataclass
class LabHost:
    name: str
    index: int
    folder: Path
    engine: subprocess.Popen[bytes] | None = None
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return f"sched-{self.name}"

    @property
    def cable(self) -> str:
        """Our end of it, at the bridge."""
        return f"sched-{self.name}"

    @property
    def ip(self) -> str:
        return f"{NETWORK}.{self.index + 2}"

    @property
    def socket(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    def cut(self) -> None:
        run("ip", "link", "set", self.cable, "down")

    def mend(self) -> None:
        run("ip", "link", "set", self.cable, "up")

    def docker(self, *words: str, check: bool = True) -> str:
        """The docker command, by the socket: it works also while the cable is cut."""
        return run("docker", "-H", self.socket, *words, check=check)

    def containers(self) -> list[str]:
        return self.docker("ps", "-a", "--format", "{{.Names}}").split()

    def running(self) -> list[str]:
        return self.docker("ps", "--format", "{{.Names}}").split()

    def enter(self) -> None:
        """Starts what keeps the namespaces: the network, and an /etc/docker of its own, where the identity of an engine
        is."""
        (self.folder / "etc").mkdir()
        Path("/etc/docker").mkdir(exist_ok=True)
        script = 'mount --bind "$0" /etc/docker && echo ready && exec sleep infinity'
        command = ["nsenter", f"--net=/var/run/netns/{self.namespace}", "unshare", "--mount", "sh", "-c", script]
        keeper = subprocess.Popen([*command, self.folder / "etc"], stdout=subprocess.PIPE, start_new_session=True)
        self.others.append(keeper)
        assert keeper.stdout is not None
        if keeper.stdout.readline() != b"ready\n":
            raise Impossible("no mount namespace")

    def start(self) -> None:
        """The engine; returns when it answers. Its containers have a control group of their own: weights hold between
        the containers of one host, as on machines of their own, and all hosts have an equal share of this machine."""
        tls = self.folder / "tls"
        listen = ["-H", self.socket]
        if self.name == "h2":
            listen += ["-H", f"tcp://{self.ip}:2376", "--tlsverify", f"--tlscacert={tls}/ca.pem"]
            listen += [f"--tlscert={tls}/server.pem", f"--tlskey={tls}/server-key.pem"]
        folders = [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/run"]
        with (self.folder / "dockerd.log").open("ab") as log:
            command = ["nsenter", f"--target={self.others[0].pid}", "--net", "--mount", "dockerd", *folders, *listen]
            command += [f"--pidfile={self.folder}/pid", "--shutdown-timeout=3", f"--cgroup-parent=/{self.namespace}"]
            self.engine = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 60
        while subprocess.run(["docker", "-H", self.socket, "version"], capture_output=True).returncode:
            if self.engine.poll() is not None or time.monotonic() > end:
                raise Impossible(f"dockerd does not start: {(self.folder / 'dockerd.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """The engine alone, in order or by SIGKILL."""
        if self.engine is not None:
            self.engine.send_signal(how)
            self.engine.wait(timeout=60)
            self.engine = None
            # Its containerd ends with it. Where nobody reaps orphans, a new engine would take the zombie for alive.
            (self.folder / "run/containerd/containerd.pid").unlink(missing_ok=True)

    def wipe(self) -> None:
        """Removes all containers and volumes, and mends the cable."""
        self.mend()
        if self.engine is None:
            self.start()
        if names := self.docker("ps", "-aq").split():
            self.docker("rm", "-f", *names)
        if volumes := self.docker("volume", "ls", "-q").split():
            self.docker("volume", "rm", "-f", *volumes)


class Lab:
    """`with Lab(folder) as lab:` the hosts are there, with sshd and certificates; after it nothing is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts = {name: LabHost(name, index, folder / name) for index, name in enumerate(NAMES)}

    def __enter__(self) -> Lab:
        self._check()
        self._remove_network()  # of a run that was killed
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            if host.engine is not None:
                host.stop()
            for process in host.others:
                process.kill()
                process.communicate()
        self._kill_leftovers()
        self._remove_network()
        self._remove_groups()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_groups(self) -> None:
        for group in (
            path for host in self.hosts.values() for path in Path("/sys/fs/cgroup").glob(f"**/{host.namespace}")
        ):
            for folder in (*sorted(group.glob("**/"), reverse=True), group):
                with suppress(OSError):  # something still runs in it
                    folder.rmdir()

    def _kill_leftovers(self) -> None:
        """What an engine that was killed has left running."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.fsencode(f"{self.folder}/") in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue

    def address(self, name: str) -> str:
        host = self.hosts[name]
        return {"h1": f"ssh://root@{host.ip}:22", "h2": f"tcp://{host.ip}:2376", "h3": host.socket}[name]

    def spec(self, name: str, gpus: int = 4) -> dict[str, object]:
        """The host as `POST /api/v1/hosts` takes it."""
        fields: dict[str, object] = {"address": self.address(name), "name": name, "simulate_gpus": gpus}
        if name == "h2":
            fields["tls"] = str(self.hosts[name].folder / "client")
        if name == "h3":
            fields["network"] = self.hosts[name].ip
        return fields

    @property
    def environment(self) -> dict[str, str]:
        """What the service needs to reach h1."""
        return {"SCHEDULEARN_SSH_CONFIG": str(self.folder / "ssh_config")}

    def load(self, image: str, source: str, *names: str) -> None:
        """Copies an image from the engine at `source`."""
        loads = []
        for host in (self.hosts[name] for name in names):
            if not host.docker("images", "-q", image).strip():
                command = f"docker -H {source} save {image} | docker -H {host.socket} load -q"
                loads.append(subprocess.Popen(["bash", "-o", "pipefail", "-c", command], stdout=subprocess.DEVNULL))
        assert [load.wait() for load in loads] == [0] * len(loads)

    def _check(self) -> None:
        if os.geteuid() != 0:
            raise Impossible("only root can make network namespaces")
        for program in ("dockerd", "docker", "iptables"):  # scripts/dev-engine.sh installs them
            if shutil.which(program) is None:
                raise Impossible(f"{program} is missing")
        missing = {package: program for program, package in PACKAGES.items() if _program(program) is None}
        if not missing:
            return
        if shutil.which("apt-get") is None:
            raise Impossible(f"{', '.join(missing.values())}: missing, and there is no apt-get")
        try:
            # The service of sshd must not start: we run it in a namespace only.
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
            run("apt-get", "update", "-qq", check=False)
            run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=env)
        except RuntimeError as error:
            raise Impossible(f"{', '.join(missing)} can't be installed: {error}") from error

    def _build(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            run("ip", "link", "add", BRIDGE, "type", "bridge")
        except RuntimeError as error:
            raise Impossible(f"no network bridge: {error}") from error
        run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        # Docker drops what it does not forward itself.
        run("iptables", "-I", "FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT")
        for host in self.hosts.values():
            host.folder.mkdir(exist_ok=True)
            inside = ("ip", "-n", host.namespace)
            run("ip", "netns", "add", host.namespace)
            run("ip", "link", "add", host.cable, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            run("ip", "link", "set", host.cable, "master", BRIDGE, "up")
            run(*inside, "addr", "add", f"{host.ip}/24", "dev", "eth0")
            run(*inside, "link", "set", "eth0", "up")
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "route", "add", "default", "via", f"{NETWORK}.1")
            host.enter()
        self._certificates(self.hosts["h2"])
        self._sshd(self.hosts["h1"])
        for host in self.hosts.values():
            host.start()

    def _remove_network(self) -> None:
        for host in self.hosts.values():
            run("ip", "link", "del", host.cable, check=False)
            run("ip", "netns", "del", host.namespace, check=False)
        run("iptables", "-D", "FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT", check=False)
        run("ip", "link", "del", BRIDGE, check=False)

    def _certificates(self, host: LabHost) -> None:
        tls, client = host.folder / "tls", host.folder / "client"
        tls.mkdir()
        client.mkdir()
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        run("openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=lab", "-keyout", tls / "ca-key.pem", "-out",
            tls / "ca.pem")  # fmt: skip
        for name, usage in (("server", "serverAuth"), ("client", "clientAuth")):
            request, extra = tls / f"{name}.csr", tls / f"{name}.ext"
            extra.write_text(f"extendedKeyUsage={usage}\nsubjectAltName=IP:{host.ip}\n")
            run("openssl", "req", *key, "-subj", f"/CN={name}", "-keyout", tls / f"{name}-key.pem", "-out", request)
            run("openssl", "x509", "-req", "-days", "2", "-in", request, "-CA", tls / "ca.pem", "-CAkey",
                tls / "ca-key.pem", "-CAcreateserial", "-extfile", extra, "-out", tls / f"{name}.pem")  # fmt: skip
        for source, target in (("ca.pem", "ca.pem"), ("client.pem", "cert.pem"), ("client-key.pem", "key.pem")):
            shutil.copy(tls / source, client / target)

    def _sshd(self, host: LabHost) -> None:
        """Lets in one key only, and only to this host's engine: `docker` there finds it by DOCKER_HOST."""
        for name in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / f"{name}_key")
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress {host.ip}:22\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n"
            f"AuthorizedKeysFile {self.folder}/user_key.pub\nPasswordAuthentication no\nPermitRootLogin yes\n"
            f"SetEnv DOCKER_HOST={host.socket}\nMaxStartups 100\nMaxSessions 100\n"
        )
        (self.folder / "ssh_config").write_text(
            f"Host {host.ip}\n  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n"
        )
        public = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"{host.ip} {public}")
        Path("/run/sshd").mkdir(exist_ok=True)
        with (host.folder / "sshd.log").open("ab") as log:
            command = [
                "nsenter",
                f"--net=/var/run/netns/{host.namespace}",
                "/usr/sbin/sshd",
                "-D",
                "-e",
                "-f",
                str(config),
            ]
            host.others.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
        wait_for(lambda: b"Server listening" in (host.folder / "sshd.log").read_bytes(), what="sshd")


@contextmanager
def serving(hosts: Lab, data: Path, *names: str, gpus: int = 4, **settings: str) -> Iterator[Service]:
    """A service without GPUs of its own and with these hosts, of so many simulated GPUs each."""
    env = {**hosts.environment, "SCHEDULEARN_HOST_GRACE": "3", **settings}
    with Service(data, gpus=0, env=env) as service:
        for name in names:
            answer = service.http.post("/api/v1/hosts", json=hosts.spec(name, gpus))
            assert answer.status_code == 201, answer.text
            assert answer.json()["reachable"], answer.json()["error"]
        yield service
        for job in service.http.get("/api/v1/jobs").json()["items"]:
            if not job["finished_at"]:
                service.http.delete(f"/jobs/{job['id']}")
