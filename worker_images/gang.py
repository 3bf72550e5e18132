"""One host's share of a job over several hosts: the first process of each of its containers.

The service gives it the plan in SCHEDULEARN_GANG and the user's command as its arguments. It finds the network
interface, waits until all hosts are there, and runs the workers of this one: by Horovod's own Gloo rendezvous, which
the first host serves (no ssh between containers), by torchrun, or just the command. Python 3.8; Horovod if it launches.

Exit codes: that of the first worker that fails; 69 if the hosts did not come together, which a new try may mend.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

NO_MEETING = 69  # EX_UNAVAILABLE
PREEMPTED = 75  # of a worker that saved a checkpoint because it was told to stop: the others are at it as well
GRACE_S = 10.0


class NoMeeting(Exception):
    pass


def main(plan, command):
    """`plan`: {"launcher", "node", "slots": [workers of each host], "address", "port", "interface", "timeout_s"}, where
    address and port are those of the first host, and an empty interface is found out."""
    try:
        addresses = local_addresses()
        interface = plan["interface"] or find_interface(addresses, plan["address"], plan["port"], own=plan["node"] == 0)
        name_ourselves(next((ip for ip, name in addresses.items() if name == interface), None))
        env = dict(os.environ, GLOO_SOCKET_IFNAME=interface)
        # Exact: a bare name is a prefix to NCCL, and eth1 would be eth10 too. The user's own choice stays.
        env.setdefault("NCCL_SOCKET_IFNAME", "=" + interface)
        if plan["launcher"] == "horovod":
            return run_horovod(plan, command, env, interface)
        if plan["launcher"] == "torchrun":
            command = torchrun(plan, command)
    except (NoMeeting, OSError) as error:
        print("the hosts of this job did not come together: %s" % error, file=sys.stderr, flush=True)  # noqa: T201, UP031
        return NO_MEETING
    env.update(MASTER_ADDR=plan["address"], MASTER_PORT=str(plan["port"]))
    return run([(command, env)])


def torchrun(plan, command):
    return [
        "torchrun",
        f"--nnodes={len(plan['slots'])}",
        f"--nproc-per-node={plan['slots'][plan['node']]}",
        f"--node-rank={plan['node']}",
        f"--master-addr={plan['address']}",
        f"--master-port={plan['port']}",
        "--no-python",
        *command,
    ]


def run_horovod(plan, command, env, interface):
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    hosts = ",".join(f"node{index}:{slots}" for index, slots in enumerate(plan["slots"]))
    ranks = get_host_assignments(parse_hosts(hosts), sum(plan["slots"]))
    if plan["node"] == 0:
        server = RendezvousHTTPServer(("", plan["port"]), RendezvousHandler, 0)
        server.daemon_threads = True
        server.init(ranks)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    meet(plan)
    env.update(
        HOROVOD_GLOO_RENDEZVOUS_ADDR=plan["address"],
        HOROVOD_GLOO_RENDEZVOUS_PORT=str(plan["port"]),
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
        HOROVOD_GLOO_IFACE=interface,
        PYTHONUNBUFFERED="1",
    )
    mine = [rank for rank in ranks if rank.hostname == f"node{plan['node']}"]
    return run([(command, dict(env, **create_slot_env_vars(rank))) for rank in mine])


def meet(plan):
    """Returns once every host has said that it is there. Raises NoMeeting."""
    store = f"http://{plan['address']}:{plan['port']}/gang"
    deadline = time.monotonic() + plan["timeout_s"]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    said = urllib.request.Request(f"{store}/{plan['node']}", data=b"here", method="PUT")  # noqa: S310 - always http
    for request in [said, *(f"{store}/{node}" for node in range(len(plan["slots"])))]:
        while True:
            try:
                with opener.open(request, timeout=5):
                    break
            except (OSError, urllib.error.HTTPError) as error:
                if time.monotonic() > deadline:
                    raise NoMeeting(f"after {plan['timeout_s']:g} s at {store}: {error}") from error
            time.sleep(0.1)


def local_addresses():
    """IPv4 address -> name of its network interface."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                asked = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue  # without an address
            found[socket.inet_ntoa(asked[20:24])] = name
    return found


def find_interface(found, address, port, own):
    """The network interface by which the first host is reached; on that host (`own`) the one that has its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        target = socket.gethostbyname(address)
        if own and target in found:
            return found[target]
        probe.connect((target, port))  # sends nothing
        return found.get(probe.getsockname()[0], "lo" if target.startswith("127.") else "eth0")


def name_ourselves(ip):
    """Gloo tells the others the address of this machine's name, which on many is a loopback one: in a container, whose
    file of names is its own, the name gets the address of the interface."""
    name = socket.gethostname()
    if ip is None or not os.path.exists("/.dockerenv"):
        return
    try:
        with open("/etc/hosts", "r+", encoding="utf-8") as hosts:
            others = [line for line in hosts.read().splitlines() if name not in line.split()[1:]]
            hosts.seek(0)
            hosts.truncate()
            hosts.write("\n".join([f"{ip} {name}", *others, ""]))
    except OSError as error:
        print(  # noqa: T201
            f"can't write /etc/hosts, so {name} may stand for a wrong address: {error}. Run this image as root.",
            file=sys.stderr,
        )


def run(workers):
    """Runs the workers to their end; the first that fails ends the others. A SIGTERM reaches them without us: what
    stops a job signals its whole process group."""
    processes = [subprocess.Popen(command, env=env) for command, env in workers]

    def tell(number):
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    signal.signal(signal.SIGTERM, lambda *_: None)
    code, killed_at = 0, None
    left = list(processes)
    while left:
        for process in list(left):
            ended = process.poll()
            if ended is None:
                continue
            left.remove(process)
            if ended and not code:
                code = ended if ended > 0 else 128 - ended
                if code == PREEMPTED:
                    continue
                tell(signal.SIGTERM)
                killed_at = time.monotonic() + GRACE_S
        if killed_at is not None and time.monotonic() > killed_at:
            tell(signal.SIGKILL)
        time.sleep(0.05)
    return code


if __name__ == "__main__":
    sys.exit(main(json.loads(os.environ["SCHEDULEARN_GANG"]), sys.argv[1:]))
