"""The module that waits for a debugger: launcher/agent/keeper/muster_debug.py."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

KEEPER = os.path.abspath(os.path.join(os.path.dirname(__file__),
                                      "../../../../launcher/agent/keeper"))

# As much of debugpy as is called; a client comes after CLIENT seconds, or never.
DEBUGPY = """
import os, threading
came = threading.Event()
if os.environ.get("FAKE") == "broken": raise RuntimeError("broken debugpy")
def configure(subProcess): assert subProcess is False
def listen(address):
    assert address == ("127.0.0.1", 0), address
    assert "MUSTER_DEBUG_WAIT" not in os.environ  # its own children run free, too
    return address[0], 4711
def is_client_connected(): return os.environ.get("FAKE") == "client"
class wait_for_client:
    def __call__(self):
        self.cancel = came.set
        if not is_client_connected() and not came.wait(20): print("never cancelled")
    @staticmethod
    def cancel(): raise RuntimeError("wait_for_client() must be called first")
wait_for_client = wait_for_client()
"""
PROGRAM = """
import os, sys
print(os.environ.get("MUSTER_DEBUG_WAIT"), os.environ.get("PYTHONPATH"), "HERE" in str(sys.path))
"""


class Sitecustomize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        with open(os.path.join(KEEPER, "muster_debug.py")) as file:
            self.module = self.put("HERE/sitecustomize.py", file.read())
        self.own = os.path.dirname(self.put("own/debugpy.py", DEBUGPY))

    def put(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return path

    def run_program(self, fake, wait="0.2", spool="/spool", has_own=True):
        path = os.path.dirname(self.module) + (":" + self.own if has_own else "")
        environment = {"PYTHONPATH": path, "FAKE": fake, "MUSTER_JOB": "train",
                       "MUSTER_HEARTBEAT": spool + "/vitals/heartbeat-3"}
        if wait:
            environment["MUSTER_DEBUG_WAIT"] = wait
        return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, text=True,
                              capture_output=True, timeout=60)

    def check_free(self, run):
        self.assertEqual(run.stdout.splitlines()[-1], "None %s False" % self.own, run.stderr)
        self.assertEqual(run.returncode, 0)

    def test_goes_on_when_a_client_comes(self):
        run = self.run_program("client", "60")
        self.check_free(run)
        self.assertIn("muster forward train --rank 3 4711\n", run.stderr)
        self.assertIn("a debugger is attached", run.stderr)

    def test_where_it_waits_is_noted_for_the_owner_alone(self):
        os.makedirs(os.path.join(self.root, "vitals"))
        run = self.run_program("client", "60", spool=self.root)
        note = os.path.join(self.root, "vitals/debug-3")
        with open(note) as file:
            self.assertRegex(file.read(), r"^\d+ 4711\n$", run.stderr)
        self.assertEqual(os.stat(note).st_mode & 0o777, 0o600)

    def test_a_path_that_was_its_own_alone_is_gone(self):
        run = self.run_program("client", "", has_own=False)
        self.assertEqual(run.stdout, "None None False\n", run.stderr)

    def test_goes_on_by_itself(self):
        run = self.run_program("nobody")
        self.check_free(run)
        self.assertIn("no debugger came", run.stderr)
        self.assertNotIn("never cancelled", run.stdout)

    def test_nothing_ends_the_program(self):
        run = self.run_program("broken")
        self.check_free(run)
        self.assertIn("broken debugpy", run.stderr)
        self.check_free(self.run_program("client", "soon"))
        os.unlink(os.path.join(self.own, "debugpy.py"))
        self.put("own/debugpy.py", "raise ImportError")
        run = self.run_program("client")
        self.check_free(run)
        self.assertIn("install python3-debugpy", run.stderr)

    def test_without_the_variable_it_says_nothing(self):
        run = self.run_program("client", "")
        self.check_free(run)
        self.assertEqual(run.stderr, "")

    def test_the_programs_own_module_runs(self):
        self.put("own/sitecustomize.py", "print('own:', __name__, __file__)")
        run = self.run_program("client")
        self.check_free(run)
        self.assertIn("own: sitecustomize %s/sitecustomize.py" % self.own, run.stdout)


if __name__ == "__main__":
    unittest.main()
