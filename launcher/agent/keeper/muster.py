"""Tells muster how a training goes: `import muster` in a program that muster started.

It is never required: it only writes the files and reads the variables that docs/job-file.md
lists, and any program may do that itself. In a program that muster did not start no function
does anything. Python 3.8 or later, no other package.
"""
import contextlib
import errno
import json
import logging
import math
import os
import signal
import threading

MARKER = ".muster-complete"

_earlier = {}  # the handlers that were there before ours, by signal
_owner = 0  # the process that asked: a forked child has the handler, too
_is_stopping = False
_is_line_torn = False  # the disk was full in the middle of a line


def heartbeat(step):
    """Says that this rank has finished `step`. Never raises OSError."""
    path = os.environ.get("MUSTER_HEARTBEAT")
    if path:
        with contextlib.suppress(OSError):
            _replace(path, "%d\n" % int(step))


def metrics(step, **values):
    """Adds a line of numbers: metrics(7, loss=2.5). Never raises OSError.

    muster shows `loss`, `tokens_per_s` and the part of `total_steps` that is done. The lines of
    all ranks come together: write what they share on one rank only.
    """
    global _is_line_torn
    path = os.environ.get("MUSTER_METRICS")
    if not path:
        return
    line = json.dumps({"step": int(step), **{name: _plain(values[name]) for name in values}})
    data = ("\n" * _is_line_torn + line + "\n").encode()
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _is_line_torn = os.write(file, data) < len(data)
        finally:
            os.close(file)


def resume_from():
    """The path of the checkpoint to resume from, or None."""
    return os.environ.get("MUSTER_RESUME_FROM") or None


def checkpoint_saved(path, step):
    """Says that the checkpoint at `path`, a file or a directory, is complete.

    Call it on one rank, after all ranks have written their part; what changes later is no part of
    it. What this node wrote is on its disk before the marker is. Raises OSError when that is not
    certain, ValueError of a step below 0.
    """
    if not _in_job():
        return
    if int(step) < 0:
        raise ValueError("step %d is below 0" % int(step))
    path = os.path.abspath(path)
    sizes = [] if os.path.isdir(path) else [os.path.getsize(path)]
    for folder, _, names in os.walk(path):  # of a file: nothing
        for name in [os.path.join(folder, name) for name in names if name != MARKER]:
            if os.path.isfile(name) and not os.path.islink(name):
                _sync(name)
                sizes.append(os.path.getsize(name))
        _sync(folder)
    _sync(path)
    _sync(os.path.dirname(path))
    marker = os.path.join(path, MARKER) if os.path.isdir(path) else path + MARKER
    told = {"step": int(step), "files": len(sizes), "bytes": sum(sizes)}
    _replace(marker, json.dumps(told) + "\n", is_durable=True)


def stopping(stop_signal=signal.SIGTERM):
    """True once muster has asked this rank to end: save a checkpoint and leave.

    The first call, on the main thread, installs the handler: make it before the first step.
    `stop_signal` is the job's `stop.signal`. Ranks hear of it at different steps: those that
    save together must agree first.
    """
    global _owner
    _owner = os.getpid()
    is_main = threading.current_thread() is threading.main_thread()
    if _in_job() and is_main and stop_signal not in _earlier:
        _earlier[stop_signal] = signal.getsignal(stop_signal)
        signal.signal(stop_signal, _on_stop)
    return _is_stopping


def members():
    """The ranks of the newest epoch of an elastic job, in the order of their places, or None."""
    path = os.environ.get("MUSTER_MEMBERS")
    try:
        with open(path or os.devnull, encoding="utf-8") as file:
            return [member["rank"] for member in json.load(file)["members"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no such job, or no epoch that names this rank yet


def hf_callback(stop_signal=signal.SIGTERM):
    """A callback for the Hugging Face Trainer that does all of the above.

    Trainer(..., callbacks=[muster.hf_callback()])
    """
    from transformers import TrainerCallback

    class MusterCallback(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            heartbeat(state.global_step)
            if _any_rank(stopping(stop_signal), args.device):
                control.should_save = control.should_training_stop = True

        def on_log(self, args, state, control, logs=None, **_):
            if state.is_world_process_zero:
                metrics(**{**(logs or {}), "step": state.global_step,
                           "total_steps": state.max_steps})

        def on_save(self, args, state, control, **_):
            _any_rank(False, args.device)  # all ranks have written their part
            folder = os.path.join(args.output_dir, "checkpoint-%d" % state.global_step)
            if state.is_world_process_zero:
                try:
                    checkpoint_saved(folder, state.global_step)
                except OSError as error:
                    logging.getLogger("muster").warning("cannot mark %s: %s", folder, error)

    stopping(stop_signal)
    return MusterCallback()


def _in_job():
    return bool(os.environ.get("MUSTER_JOB"))


def _any_rank(is_true, device):
    """Whether it is true on any rank of torch.distributed; waits for all of them."""
    import torch

    dist = torch.distributed
    if not (_in_job() and dist.is_available() and dist.is_initialized()):
        return is_true
    told = torch.tensor(int(is_true), device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told.item())


def _on_stop(number, frame):
    global _is_stopping
    earlier = _earlier[number]
    if os.getpid() != _owner:  # it must still end when its parent asks it to
        signal.signal(number, earlier or signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    _is_stopping = True
    if callable(earlier) and earlier is not signal.default_int_handler:
        earlier(number, frame)


def _plain(value):
    """As JSON has it: a tensor's number, null for a number that is not finite, else text."""
    if hasattr(value, "item"):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # it has several
            value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _replace(path, text, is_durable=False):
    """Writes the file at `path`, whole or not at all."""
    unfinished = "%s.%d.new" % (path, os.getpid())
    try:
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(text)
        if is_durable:
            _sync(unfinished)
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    if is_durable:
        _sync(os.path.dirname(path))


def _sync(path):
    """Puts a file or a directory on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        # Some network file systems have no sync of directories.
        if not os.path.isdir(path) or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(file)
