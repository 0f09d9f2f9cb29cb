"""Ways in which people's own mistakes end a training; no node has anything to do with them.

user_errors.py KIND
"""
import datetime
import os
import socket
import sys
import time

kind = sys.argv[1]
rank = int(os.environ["RANK"])
last = int(os.environ["WORLD_SIZE"]) - 1


def group(backend="gloo"):
    import torch.distributed as dist

    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=8))
    return dist


def steps(dist, count):
    import torch

    for _ in range(count):
        dist.all_reduce(torch.ones(4))


def leaves_early(who):
    dist = group()
    steps(dist, 3)
    if rank == who:
        os._exit(0)  # it believes that it is done
    steps(dist, 1000000)


def another_shape():
    import torch

    dist = group()
    dist.all_reduce(torch.ones(4 if rank == 0 else 1 << 20))


def skips_a_collective():
    dist = group()
    steps(dist, 3)
    if rank == 1:
        time.sleep(60)
    steps(dist, 1)


def fails_on(who, error):
    dist = group()
    steps(dist, 3)
    if rank == who:
        raise error
    steps(dist, 1000000)


def no_gpu():
    import torch

    torch.ones(1).cuda()


def port_twice():
    taken = [socket.socket(), socket.socket()]
    for one in taken:
        one.bind(("0.0.0.0", 16999))
        one.listen()


kinds = {
    "leaves_early_first": lambda: leaves_early(0),
    "leaves_early_last": lambda: leaves_early(last),
    "joins": lambda: steps(group(), 3),  # with variables of the job's that keep it from that
    "another_shape": another_shape,
    "skips_a_collective": skips_a_collective,
    "assertion": lambda: fails_on(last, AssertionError("a batch of 3, wanted 4")),
    "no_data": lambda: fails_on(1, RuntimeError("no data left")),
    "nccl_without_gpu": lambda: steps(group("nccl"), 1),
    "no_gpu": no_gpu,
    "name_error": lambda: undefined_name,  # noqa: F821
    "no_module": lambda: __import__("no_such_module"),
    "no_file": lambda: open("/no/such/file"),
    "no_permission": lambda: open("/proc/1/mem" if os.geteuid() else "/proc/kmsg/x"),
    "full_device": lambda: os.write(os.open("/dev/full", os.O_WRONLY), b"x"),
    "port_twice": port_twice,
    "no_such_host": lambda: socket.create_connection(("no-such-host.invalid", 80)),
    "refused": lambda: socket.create_connection(("127.0.0.1", 1)),
    "exit_on_one": lambda: sys.exit(3) if rank == 1 else time.sleep(60),
    "crash_on_one": lambda: os.kill(os.getpid(), 11) if rank == last else time.sleep(60),
    "memory": lambda: bytearray(1 << 60),
    "recursion": lambda: exec("def f(): f()\nf()"),
    "interrupt": lambda: os.kill(os.getpid(), 2),
    "abort": os.abort,
    "usage": lambda: sys.exit("train.py: error: --lr: 'fast' is not a number"),
    "nan": lambda: sys.exit("loss is nan at step 3"),
}
kinds[kind]()
