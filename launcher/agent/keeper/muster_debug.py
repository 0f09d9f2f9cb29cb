"""Of the rank that `muster.debug` names: its Python program waits here for a debugger.

As sitecustomize.py it is first in that rank's PYTHONPATH, so that Python runs it before all else.
Nothing that happens here ends the program: without debugpy, or without a client in time, it goes
on. Then it is as if this file were not there: its variable and its directory are gone from the
environment of child processes, and the program's own sitecustomize is run. Python 3.8 or later.
"""
import importlib.machinery
import importlib.util
import os
import sys


def _wait(seconds):
    import threading  # only here: most programs that load this file are children

    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else it advises about frozen modules
    try:
        import debugpy
    except ImportError:
        return _say("no debugpy in %s: install python3-debugpy, or debugpy with pip; the program"
                    " goes on" % sys.executable)
    finally:
        del os.environ["PYDEVD_DISABLE_FILE_VALIDATION"]
    debugpy.configure(subProcess=False)  # else each child process waits for a client too
    _, port = debugpy.listen(("127.0.0.1", 0))
    _note(port)
    _say("waits %g s at most for a debugger at 127.0.0.1:%d of its node; from your machine: "
         "muster forward %s %d" % (seconds, port, _place(), port))
    late = threading.Timer(seconds, lambda: debugpy.wait_for_client.cancel())
    late.daemon = True
    late.start()
    debugpy.wait_for_client()
    late.cancel()
    _say("a debugger is attached" if debugpy.is_client_connected() else "no debugger came")


def _place():
    rank = os.environ.get("MUSTER_HEARTBEAT", "").rpartition("-")[2]
    return os.environ.get("MUSTER_JOB", "JOB") + (" --rank " + rank if rank.isdigit() else "")


def _note(port):
    """For muster debug (debug.sh)."""
    try:
        folder, rank = os.environ["MUSTER_HEARTBEAT"].rsplit("heartbeat-", 1)
        path = os.open(folder + "debug-" + rank, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(path, "w") as file:
            file.write("%d %d\n" % (os.getpid(), port))
    except (KeyError, ValueError, OSError):
        pass  # then it is told by this line alone


def _say(text):
    print("muster: debug: " + text, file=sys.stderr, flush=True)


def _leave(here):
    """Children run free, and the program finds the path that it was given."""
    sys.path[:] = [entry for entry in sys.path if entry != here]
    path = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(entry for entry in path if entry != here)
    if path:
        os.environ["PYTHONPATH"] = path


def _run_own():
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_seconds = os.environ.pop("MUSTER_DEBUG_WAIT", "")
_leave(os.path.dirname(os.path.abspath(__file__)))
if _seconds:
    try:
        _wait(float(_seconds))
    except Exception as error:  # whatever debugpy meets is no reason to end the program
        _say("cannot wait for a debugger: %r" % error)
_run_own()
