"""The program that starts Ray on a node, beside a double of Ray: keeper/muster_ray.py."""
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, *[".."] * 4)
STARTER = os.path.join(SOURCE, "launcher", "agent", "keeper", "muster_ray.py")
DOUBLE = os.path.join(SOURCE, "tests", "programs", "ray_double")
PORT = 16871


def starter_module():
    spec = importlib.util.spec_from_file_location("muster_ray", STARTER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Processes(unittest.TestCase):
    def start(self, *words):
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_what_does_not_mind_sigterm_is_killed(self):
        module = starter_module()
        module.END_LIMIT_S = 0.2
        process = self.start("sh", "-c", "trap '' TERM; echo begun; sleep 10; exit 3")
        process.stdout.readline()
        module.end(process)
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_a_signal_goes_to_the_command_and_to_what_a_shell_runs(self):
        receives = starter_module().receives
        shell = self.start("sh", "-c", "sleep 10 >/dev/null & echo $!; wait")
        child = int(shell.stdout.readline())
        self.assertEqual(list(receives(shell)), [shell.pid, child])
        python = self.start(sys.executable, "-c", "import os, time; print(os.fork(), flush=True);"
                            " os.close(1); time.sleep(2)")
        python.stdout.readline()
        self.assertEqual(list(receives(python)), [python.pid])


class Cluster(unittest.TestCase):
    starter = STARTER

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = self.folder.name
        for name in ("nodes", "said"):
            os.mkdir(os.path.join(self.home, name))
        self.nodes = []

    def tearDown(self):
        for process in self.nodes:
            process.kill()
            process.wait()
        for folder in os.listdir("/proc"):  # what muster would end by its token
            try:
                with open("/proc/%s/environ" % folder) as file:
                    is_ours = "RAY_DOUBLE=" + self.home in file.read().split("\0")
                if is_ours:
                    os.kill(int(folder), signal.SIGKILL)
            except (OSError, UnicodeError, ValueError):
                pass
        self.folder.cleanup()

    def start(self, index, command, path=DOUBLE + ":" + os.environ["PATH"], arguments="",
              modules=DOUBLE):
        environment = dict(
            os.environ, PATH=path, PYTHONPATH=modules, RAY_DOUBLE=self.home, NODE_RANK=str(index),
            RAY_ADDRESS="127.0.0.1:%d" % PORT, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64,
            MUSTER_RAY_NODES="3", MUSTER_RAY_NODE_ADDRESS="127.0.0.1",
            MUSTER_RAY_HEAD_ARGS="--port=%d %s" % (PORT, arguments))
        place = os.path.join(self.home, "place-%d" % index)
        # Not a pipe: what is left of the double would hold it open.
        with open(os.path.join(self.home, "log-%d" % index), "w") as log:
            self.nodes.append(subprocess.Popen(
                [sys.executable, "-I", self.starter, str(index), place, "bash", "-c", command],
                env=environment, stdout=log, stderr=log))

    def start_all(self, command, **options):
        for index in (1, 2, 0):
            self.start(index, command, **options)

    def ends(self):
        """The exit codes of node 1, 2 and 0."""
        return [node.wait(60) for node in self.nodes]

    def shorten_limits(self):
        with open(STARTER) as file:
            text = file.read()
        for long, short in (("READY_LIMIT_S = 120", "READY_LIMIT_S = 5"),
                            ("READY_LIMIT_S + 30", "READY_LIMIT_S"),
                            ("END_LIMIT_S = 10", "END_LIMIT_S = 1")):
            self.assertEqual(text.count(long), 1)
            text = text.replace(long, short)
        self.starter = os.path.join(self.home, "starter.py")
        with open(self.starter, "w") as file:
            file.write(text)

    def content(self, name):
        with open(os.path.join(self.home, name)) as file:
            return file.read()

    def test_the_command_runs_once_when_all_are_there_and_its_code_counts(self):
        self.start_all("echo command >>$RAY_DOUBLE/order; exit 7", arguments="--labels 'a b'")
        self.assertEqual(self.ends(), [0, 0, 7])
        order = self.content("order").split()
        self.assertEqual((order[0], order[-1]), ("head", "command"))
        self.assertEqual(sorted(order[1:-1]), ["worker-1", "worker-2"])
        told = self.content("said/head").splitlines()
        for word in ("start", "--head", "--block", "--labels", "a b",
                     "--node-ip-address=127.0.0.1"):
            self.assertIn(word, told)
        self.assertIn("--address=127.0.0.1:%d" % PORT, self.content("said/worker-2").splitlines())
        self.assertEqual(self.content("modes"), "0o700\n" * 3)  # nobody else enters what Ray opens
        self.assertEqual(sorted(self.content("places").split()),
                         [self.home + "/place-%d/r" % index for index in range(3)])

    def test_a_directory_that_is_there_already_is_refused(self):
        os.mkdir(os.path.join(self.home, "place-0"))
        self.start(0, "true")
        self.assertEqual(self.ends(), [1])
        self.assertIn("muster: cannot make the directory of Ray's files", self.content("log-0"))
        self.assertFalse(os.path.exists(os.path.join(self.home, "said", "head")))

    def test_a_worker_waits_for_the_head_up_to_a_limit(self):
        self.shorten_limits()
        self.start(1, "true")
        self.assertEqual(self.ends(), [1])
        self.assertIn("the Ray head accepted no connection for 5 s", self.content("log-1"))

    def test_the_command_waits_for_all_nodes_up_to_a_limit(self):
        self.shorten_limits()
        self.start(0, "echo command >>$RAY_DOUBLE/order")
        self.assertEqual(self.ends(), [1])
        self.assertIn("the command was not started", self.content("log-0"))
        self.assertEqual(self.content("order"), "head\n")

    def test_a_count_of_nodes_that_hangs_has_a_limit(self):
        self.shorten_limits()
        with open(os.path.join(self.home, "ray.py"), "w") as file:
            file.write("import time; time.sleep(30)")
        self.start(0, "true", modules=self.home)
        self.assertEqual(self.ends(), [1])
        self.assertIn("the Ray head was not ready after 5 s", self.content("log-0"))

    def test_what_kills_the_command_is_told_of_the_rank(self):
        self.start_all("kill -9 $$")
        self.assertEqual(self.ends(), [0, 0, -signal.SIGKILL])

    def test_a_worker_that_ends_before_the_head_says_so(self):
        open(os.path.join(self.home, "die"), "w").close()
        self.start_all("true")
        self.assertEqual(self.nodes[1].wait(60), 1)
        self.assertIn("muster: the Ray worker of this node ended with 3 while",
                      self.content("log-2"))
        self.nodes[2].terminate()  # as muster does when a rank failed
        self.assertEqual(self.nodes[2].wait(60), 143)
        self.assertNotIn("Traceback", self.content("log-0"))

    def test_a_stop_reaches_the_command_and_the_workers_end_with_the_head(self):
        self.start_all("trap 'exit 5' TERM; touch $RAY_DOUBLE/begun; while :; do sleep 0.1; done")
        limit = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.home, "begun")):
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.05)
        for node in self.nodes:
            node.terminate()
        self.assertEqual(self.ends(), [0, 0, 5])

    def test_without_ray_one_sentence_says_what_to_install(self):
        self.start(0, "true", path="/usr/bin:/bin")
        self.assertEqual(self.ends(), [127])
        self.assertEqual(self.content("log-0").count("\n"), 1)
        self.assertIn("install the pip package 'ray'", self.content("log-0"))


if __name__ == "__main__":
    unittest.main()
