"""One node of a job with `distribution: {type: ray}`; muster runs it in the place of the command.

    muster_ray.py NODE_INDEX PARENT_OF_TEMP_DIR COMMAND…

Node 0 runs Ray's head, waits until Ray counts all nodes, runs COMMAND, ends the head and has
COMMAND's code. The others run a worker while the head accepts connections. Everything else is told
by RAY_ADDRESS and MUSTER_RAY_*. Python 3.8 or later, no other package.
"""
import contextlib
import ipaddress
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

READY_LIMIT_S = 120  # until Ray counts all nodes
HEAD_LIMIT_S = READY_LIMIT_S + 30  # a worker waits longer: why the head does not start, it says
END_LIMIT_S = 10  # for what got SIGTERM
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
SHELLS = ("bash", "sh", "dash", "busybox")

# Run by Ray's own Python. `ray status` lags by seconds, and its text changes between versions.
COUNT = """
import os, sys, time, ray
wanted, limit, address = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] or None
ray.init(address=os.environ["RAY_ADDRESS"], _node_ip_address=address, log_to_driver=False,
         logging_level="ERROR")
end = time.monotonic() + limit
while (there := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > end:
        sys.exit("muster: Ray counts %d of %d nodes after %d s" % (there, wanted, limit))
    time.sleep(0.3)
"""

_command = None  # that runs on node 0
_is_deaf = False  # a worker ends with the head, not with the signal that the command gets


def fail(text, code=1):
    print("muster: " + text, file=sys.stderr, flush=True)
    sys.exit(code)


def receives(process):
    """Who gets a stop signal: the command and, while that is a shell, the shell's children."""
    yield process.pid
    with contextlib.suppress(OSError):
        with open("/proc/%d/comm" % process.pid) as name:
            if name.read().strip() not in SHELLS:
                return
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as children:
            yield from map(int, children.read().split())


def on_signal(number, _):
    if _command is not None:
        for pid in list(receives(_command)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    elif not _is_deaf:
        sys.exit(128 + number)


def end(process):
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_LIMIT_S)
        process.kill()
        process.wait()


def end_as(process):
    """Ends this program as `process` ended: what killed the command is then told of the rank."""
    if process.returncode >= 0:
        sys.exit(process.returncode)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # SIGKILL has no handler
        signal.signal(-process.returncode, signal.SIG_DFL)
    os.kill(os.getpid(), -process.returncode)


def own_address():
    """Ray finds out by itself what a host's name stands for; here it may be 127.0.1.1."""
    address = os.environ["MUSTER_RAY_NODE_ADDRESS"]
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(address))
    return ""


def start_ray(ray, temp_dir, words):
    try:  # What is there may be another user's. Ray opens its own directory to everybody.
        os.mkdir(temp_dir, 0o700)
        os.mkdir(temp_dir + "/r", 0o700)
    except OSError as error:
        fail("cannot make the directory of Ray's files: %s" % error)
    address = ["--node-ip-address=" + own_address()] if own_address() else []
    # Any free ports for its processes: the usual range may hold the head's, and other clusters'.
    ports = ["--min-worker-port=0", "--max-worker-port=0"]
    return subprocess.Popen(
        [ray, "start", *address, "--temp-dir=" + temp_dir + "/r", "--block", *ports, *words])


def told_words(name):
    try:
        return shlex.split(os.environ.get(name, ""))
    except ValueError as error:
        fail("%s: %s" % (os.environ[name], error), 2)


def python_of(ray):
    """The interpreter that a console script names, however its installer wrote that."""
    with open(ray, errors="replace") as script:
        found = re.search(r"/[^\s'\"]*python[^\s'\"]*", script.read(1024))
    return found.group() if found and os.access(found.group(), os.X_OK) else "python3"


class Head:
    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.at = host.strip("[]"), int(port)
        self.refused = 0  # times in a row

    def accepts(self):
        try:
            socket.create_connection(self.at, 2).close()
        except ConnectionRefusedError:
            self.refused += 1
            return False
        except OSError:  # a host that does not answer is for muster to judge
            return False
        self.refused = 0
        return True

    def is_over(self):
        self.accepts()
        return self.refused >= 2


def await_all(head, ray, ray_program):
    limit = time.monotonic() + READY_LIMIT_S
    counter = None
    while counter is None or counter.poll() is None:
        if ray.poll() is not None:
            fail("the Ray head ended with %d before all nodes had joined" % ray.returncode)
        left = limit - time.monotonic()
        if left < -END_LIMIT_S or (counter is None and left < 0):
            fail("the Ray head was not ready after %d s" % READY_LIMIT_S)
        if counter is None and head.accepts():
            counter = subprocess.Popen(
                [python_of(ray_program), "-c", COUNT, os.environ["MUSTER_RAY_NODES"],
                 str(max(left, 1)), own_address()])
        time.sleep(0.1)
    if counter.returncode != 0:
        fail("the command was not started: not all nodes joined the Ray cluster")
    print("muster: Ray counts all nodes; the command starts", flush=True)


def run_head(head, ray_program, temp_dir, command):
    global _command
    words = told_words("MUSTER_RAY_HEAD_ARGS")
    ray = start_ray(ray_program, temp_dir, ["--head", *words])
    try:
        await_all(head, ray, ray_program)
        _command = subprocess.Popen(command)
        while _command.poll() is None:
            if ray.poll() is not None:
                end(_command)
                fail("the Ray head ended with %d while the command ran" % ray.returncode)
            time.sleep(0.1)
    finally:
        end(ray)
    end_as(_command)


def run_worker(head, ray_program, temp_dir):
    global _is_deaf
    limit = time.monotonic() + HEAD_LIMIT_S
    while not head.accepts():
        if time.monotonic() > limit:
            fail("the Ray head accepted no connection for %d s at %s:%d" %
                 (HEAD_LIMIT_S, *head.at))
        time.sleep(0.5)
    _is_deaf = True
    words = told_words("MUSTER_RAY_WORKER_ARGS")
    ray = start_ray(ray_program, temp_dir,
                    ["--address=" + os.environ["RAY_ADDRESS"], *words])
    try:
        while ray.poll() is None:
            if head.is_over():
                return ray.kill()  # asked to end it would wait for the head; muster ends the rest
            time.sleep(1)
        for _ in range(4):  # it may have seen the end of the head first
            if head.is_over():
                return
            time.sleep(0.5)
        fail("the Ray worker of this node ended with %d while the head ran" % ray.returncode)
    finally:
        end(ray)


def main():
    index, temp_dir, *command = sys.argv[1:]
    for name in SIGNALS:
        signal.signal(getattr(signal, name), on_signal)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray_program = shutil.which("ray")
    if ray_program is None:
        fail("there is no program 'ray' in PATH on this node; install the pip package 'ray' there "
             "or put the directory of its environment into PATH", 127)
    head = Head(os.environ["RAY_ADDRESS"])
    if index == "0":
        run_head(head, ray_program, temp_dir, command)
    else:
        run_worker(head, ray_program, temp_dir)


if __name__ == "__main__":
    main()
