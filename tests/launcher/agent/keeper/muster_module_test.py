"""The module that muster lays beside training programs: launcher/agent/keeper/muster.py."""
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from unittest import mock

KEEPER = os.path.abspath(os.path.join(os.path.dirname(__file__),
                                      "../../../../launcher/agent/keeper"))
HAS_TRANSFORMERS = all(importlib.util.find_spec(name) for name in ("transformers", "accelerate"))


def fresh_module():
    spec = importlib.util.spec_from_file_location("muster", os.path.join(KEEPER, "muster.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data=b"data"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


class Scalar:
    """As a tensor or an array of one element is."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class Many:
    def item(self):
        raise ValueError("can only convert an array of size 1")

    def __str__(self):
        return "[1 2]"


class ModuleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = folder.name
        kept = {name: os.environ[name] for name in os.environ if not name.startswith("MUSTER_")}
        patch = mock.patch.dict(os.environ, {**kept, **self.variables()}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.muster = fresh_module()

    def variables(self):
        return {"MUSTER_JOB": "job", "MUSTER_HEARTBEAT": self.at("heartbeat"),
                "MUSTER_METRICS": self.at("metrics"), "MUSTER_MEMBERS": self.at("members")}

    def at(self, name):
        return os.path.join(self.work, name)

    def program(self, text, *arguments):
        """Runs a program beside the module; what it printed. It must end with 0."""
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(text), *arguments],
                              env={**os.environ, "PYTHONPATH": KEEPER}, capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.split()


class OutsideOfAJob(ModuleTest):
    def variables(self):
        return {}

    def test_nothing_is_written_and_nothing_is_known(self):
        self.assertIsNone(self.muster.heartbeat(1))
        self.assertIsNone(self.muster.metrics(1, loss=2.5))
        self.assertIsNone(self.muster.checkpoint_saved(self.at("absent"), 1))
        self.assertIsNone(self.muster.resume_from())
        self.assertIsNone(self.muster.members())
        self.assertEqual(os.listdir(self.work), [])

    def test_empty_variables_are_absent_ones(self):
        for name in ("JOB", "HEARTBEAT", "METRICS", "MEMBERS", "RESUME_FROM"):
            os.environ["MUSTER_" + name] = ""
        self.test_nothing_is_written_and_nothing_is_known()

    def test_the_signal_is_left_alone(self):
        before = signal.getsignal(signal.SIGTERM)
        self.assertIs(self.muster.stopping(), False)
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)


class Heartbeat(ModuleTest):
    def test_it_holds_the_last_step_alone(self):
        self.muster.heartbeat(120)
        self.assertEqual(content(self.at("heartbeat")), b"120\n")
        self.muster.heartbeat(Scalar(7).item())
        self.assertEqual(content(self.at("heartbeat")), b"7\n")
        self.assertEqual(os.listdir(self.work), ["heartbeat"])

    def test_a_reader_never_finds_half_of_it(self):
        self.muster.heartbeat(1)
        with open(self.at("heartbeat")) as before:
            self.muster.heartbeat(2)
            self.assertEqual(before.read(), "1\n")

    def test_a_directory_that_cannot_be_written_ends_nothing(self):
        put(self.at("file"))
        for path in (self.at("absent/heartbeat"), self.at("file/heartbeat"), "/proc/heartbeat"):
            os.environ["MUSTER_HEARTBEAT"] = path
            self.muster.heartbeat(3)

    def test_a_directory_without_permission_ends_nothing(self):
        os.chmod(self.work, 0o500)
        self.addCleanup(os.chmod, self.work, 0o700)
        self.muster.heartbeat(3)
        if os.geteuid() != 0:
            self.assertEqual(os.listdir(self.work), [])

    def test_a_full_disk_keeps_the_step_before_and_leaves_nothing_behind(self):
        self.program("""
            import muster, resource
            muster.heartbeat(4)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            muster.heartbeat(500)
        """)
        self.assertEqual(content(self.at("heartbeat")), b"4\n")
        self.assertEqual(os.listdir(self.work), ["heartbeat"])


class Metrics(ModuleTest):
    def lines(self):
        def no_constant(word):
            raise ValueError(word + " is not JSON")

        lines = content(self.at("metrics")).decode().split("\n")
        self.assertEqual(lines.pop(), "")
        return [json.loads(line, parse_constant=no_constant) for line in lines if line]

    def test_each_call_adds_a_line(self):
        self.muster.metrics(1, loss=2.5, lr=1e-4)
        self.muster.metrics(step=2, loss=2, name="a\nb", last=True, none=None)
        self.assertEqual(self.lines(), [
            {"step": 1, "loss": 2.5, "lr": 1e-4},
            {"step": 2, "loss": 2, "name": "a\nb", "last": True, "none": None}])

    def test_numbers_that_are_not_finite_are_null(self):
        self.muster.metrics(1, a=math.nan, b=math.inf, c=-math.inf, d=Scalar(math.nan))
        self.assertEqual(self.lines(), [{"step": 1, "a": None, "b": None, "c": None, "d": None}])

    def test_tensors_are_their_number_and_the_rest_is_text(self):
        self.muster.metrics(Scalar(3).item(), a=Scalar(2.5), b=Scalar(4), c=Many(), d=[math.nan],
                            e=1 + 2j, f="\udcff")
        self.assertEqual(self.lines(), [{"step": 3, "a": 2.5, "b": 4, "c": "[1 2]", "d": "[nan]",
                                         "e": "(1+2j)", "f": "\udcff"}])

    def test_a_line_is_one_write_at_the_end(self):
        put(self.at("metrics"), b'{"step":0}\n')
        with mock.patch.object(os, "write", wraps=os.write) as write:
            self.muster.metrics(1, loss=2.5)
        self.assertEqual(write.call_count, 1)
        self.assertEqual([line["step"] for line in self.lines()], [0, 1])

    def test_lines_of_several_writers_stay_whole(self):
        self.program("""
            import muster, os
            children = []
            for child in range(4):
                children.append(os.fork())
                if not children[-1]:
                    for step in range(200):
                        muster.metrics(step, child=child, text="x" * 300)
                    os._exit(0)
            for child in children:
                os.waitpid(child, 0)
        """)
        self.assertEqual(len(self.lines()), 800)

    def test_what_cannot_be_written_ends_nothing(self):
        for path in ("/dev/full", self.at("absent/metrics"), self.work):
            os.environ["MUSTER_METRICS"] = path
            self.muster.metrics(1, loss=2.5)

    def test_after_a_line_that_did_not_fit_the_next_one_stands_alone(self):
        self.program("""
            import muster, resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (5, resource.RLIM_INFINITY))
            muster.metrics(1, loss=2.5)
            muster.metrics(2, loss=2.5)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            muster.metrics(3, loss=2.5)
            muster.metrics(4, loss=2.5)
        """)
        self.assertEqual(content(self.at("metrics")),
                         b'{"ste\n{"step": 3, "loss": 2.5}\n{"step": 4, "loss": 2.5}\n')


class ResumeFrom(ModuleTest):
    def test_it_is_the_path_or_none(self):
        self.assertIsNone(self.muster.resume_from())
        os.environ["MUSTER_RESUME_FROM"] = ""
        self.assertIsNone(self.muster.resume_from())
        os.environ["MUSTER_RESUME_FROM"] = "/data/step 7"
        self.assertEqual(self.muster.resume_from(), "/data/step 7")


class CheckpointSaved(ModuleTest):
    def test_a_directory_holds_its_marker(self):
        put(self.at("step7/weights/part0"))
        self.muster.checkpoint_saved(self.at("step7"), 7)
        self.assertEqual(content(self.at("step7/.muster-complete")),
                         b'{"step": 7, "files": 1, "bytes": 4}\n')
        self.muster.checkpoint_saved(self.at("step7/"), 8)
        self.assertEqual(content(self.at("step7/.muster-complete")),
                         b'{"step": 8, "files": 1, "bytes": 4}\n')
        self.assertEqual(sorted(os.listdir(self.at("step7"))), [".muster-complete", "weights"])

    def test_links_are_no_files_and_a_step_is_not_negative(self):
        put(self.at("step7/part0"))
        os.symlink("part0", self.at("step7/latest"))
        os.symlink("nowhere", self.at("step7/gone"))
        self.muster.checkpoint_saved(self.at("step7"), 7)
        self.assertEqual(content(self.at("step7/.muster-complete")),
                         b'{"step": 7, "files": 1, "bytes": 4}\n')
        with self.assertRaises(ValueError):
            self.muster.checkpoint_saved(self.at("step7"), -1)

    def test_the_marker_of_a_file_lies_beside_it(self):
        put(self.at("c/step7.pt"))
        self.muster.checkpoint_saved(self.at("c/step7.pt"), 7)
        self.assertEqual(content(self.at("c/step7.pt.muster-complete")),
                         b'{"step": 7, "files": 1, "bytes": 4}\n')
        self.assertEqual(len(os.listdir(self.at("c"))), 2)

    def test_relative_paths_and_path_objects_are_taken(self):
        import pathlib

        put(self.at("step7.pt"))
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.work)
        self.muster.checkpoint_saved(pathlib.Path("step7.pt"), 7)
        self.assertTrue(os.path.exists("step7.pt.muster-complete"))

    def test_all_of_it_is_on_the_disk_before_the_marker_has_its_name(self):
        put(self.at("step7/weights/part0"))
        os.mkfifo(self.at("step7/pipe"))
        os.symlink("nowhere", self.at("step7/link"))
        seen = []
        sync, replace = os.fsync, os.replace

        def seen_sync(file):
            seen.append(os.path.relpath(os.readlink("/proc/self/fd/%d" % file), self.work))
            sync(file)

        def seen_replace(source, target):
            seen.append("replace")
            replace(source, target)

        with mock.patch.object(os, "fsync", seen_sync), \
                mock.patch.object(os, "replace", seen_replace):
            self.muster.checkpoint_saved(self.at("step7"), 7)
        at = seen.index("replace")
        unfinished = "step7/.muster-complete.%d.new" % os.getpid()
        self.assertLessEqual({"step7/weights/part0", "step7/weights", "step7", ".", unfinished},
                             set(seen[:at]))
        self.assertEqual(seen[at - 1:], [unfinished, "replace", "step7"])

    def test_what_cannot_be_marked_is_told(self):
        with self.assertRaises(OSError):
            self.muster.checkpoint_saved(self.at("absent"), 7)
        self.assertEqual(os.listdir(self.work), [])
        put(self.at("step7/part0"))
        os.mkdir(self.at("step7/.muster-complete"))
        with self.assertRaises(OSError):
            self.muster.checkpoint_saved(self.at("step7"), 7)
        self.assertEqual(sorted(os.listdir(self.at("step7"))), [".muster-complete", "part0"])

    def test_a_failed_sync_is_told_and_leaves_no_marker(self):
        put(self.at("step7/part0"))
        with mock.patch.object(os, "fsync", side_effect=OSError(5, "Input/output error")):
            with self.assertRaises(OSError):
                self.muster.checkpoint_saved(self.at("step7"), 7)
        self.assertEqual(os.listdir(self.at("step7")), ["part0"])

    def test_a_file_system_without_syncs_of_directories_is_good_enough(self):
        put(self.at("step7/part0"))
        sync = os.fsync

        def files_only(file):
            if os.path.isdir(os.readlink("/proc/self/fd/%d" % file)):
                raise OSError(22, "Invalid argument")
            sync(file)

        with mock.patch.object(os, "fsync", files_only):
            self.muster.checkpoint_saved(self.at("step7"), 7)
        self.assertTrue(os.path.exists(self.at("step7/.muster-complete")))


class Stopping(ModuleTest):
    def test_the_signal_is_remembered(self):
        self.assertEqual(self.program("""
            import muster, os, signal
            print(muster.stopping())
            os.kill(os.getpid(), signal.SIGTERM)
            print(muster.stopping(), muster.stopping())
        """), ["False", "True", "True"])

    def test_another_signal_may_be_the_one(self):
        self.assertEqual(self.program("""
            import muster, os, signal
            print(muster.stopping(signal.SIGINT), muster.stopping())
            os.kill(os.getpid(), signal.SIGINT)
            print(muster.stopping(signal.SIGINT))
        """), ["False", "False", "True"])

    def test_an_earlier_handler_still_hears_it(self):
        self.assertEqual(self.program("""
            import muster, os, signal
            signal.signal(signal.SIGTERM, lambda number, frame: print("earlier", number))
            muster.stopping(), muster.stopping()
            os.kill(os.getpid(), signal.SIGTERM)
            print(muster.stopping())
        """), ["earlier", "15", "True"])

    def test_another_thread_installs_nothing_but_is_told(self):
        self.assertEqual(self.program("""
            import muster, os, signal, threading
            def ask():
                thread = threading.Thread(target=lambda: print(muster.stopping()))
                thread.start()
                thread.join()
            ask()
            print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
            muster.stopping()
            os.kill(os.getpid(), signal.SIGTERM)
            ask()
        """), ["False", "True", "True"])

    def test_a_forked_child_ends_when_its_parent_asks_it_to(self):
        self.assertEqual(self.program("""
            import muster, os, signal
            muster.stopping()
            ready, tell = os.pipe()
            child = os.fork()
            if not child:
                signal.alarm(60)
                os.write(tell, b"!")
                signal.pause()
                os._exit(1)
            os.read(ready, 1)
            os.kill(child, signal.SIGTERM)
            print(os.waitpid(child, 0)[1], muster.stopping())
        """), ["15", "False"])

    def test_a_forked_child_that_asks_is_told_itself(self):
        self.assertEqual(self.program("""
            import muster, os, signal
            muster.stopping()
            child = os.fork()
            if not child:
                muster.stopping()
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(3 if muster.stopping() else 4)
            print(os.waitpid(child, 0)[1] >> 8, muster.stopping())
        """), ["3", "False"])


class Members(ModuleTest):
    def test_ranks_come_in_the_order_of_their_places(self):
        put(self.at("members"), json.dumps({"epoch": 3, "members": [
            {"rank": 4, "host": "10.0.0.1", "port": 4567, "node": "n01"},
            {"rank": 0, "host": "10.0.0.2", "port": 4567, "node": "n02"}]}).encode())
        self.assertEqual(self.muster.members(), [4, 0])

    def test_no_file_and_odd_files_are_none(self):
        self.assertIsNone(self.muster.members())
        for text in (b"", b"{", b"\xff", b"[]", b"3", b"{}", b'{"members": 3}',
                     b'{"members": [3]}', b'{"members": [{}]}'):
            put(self.at("members"), text)
            self.assertIsNone(self.muster.members(), text)


TRAINING = """
    import os, signal, sys
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments
    import muster

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x, labels=None):
            out = self.layer(x)
            return {"loss": (out.squeeze(-1) - labels).square().mean(), "logits": out}

    class StopAt3(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            if state.global_step == 2 and os.environ.get("RANK", "0") == sys.argv[2]:
                os.kill(os.getpid(), signal.SIGTERM)

    data = [{"x": torch.ones(4) * i, "labels": torch.tensor(1.0)} for i in range(64)]
    arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=12, save_steps=2, use_cpu=True,
                                  logging_steps=1, report_to=[], disable_tqdm=True,
                                  per_device_train_batch_size=2, learning_rate=1e-3)
    trainer = Trainer(model=Net(), args=arguments, train_dataset=data,
                      callbacks=[StopAt3(), muster.hf_callback()])
    trainer.train()
    print("ended-at", trainer.state.global_step)
"""


@unittest.skipUnless(HAS_TRANSFORMERS, "no transformers")
class HuggingFace(ModuleTest):
    def test_the_trainer_saves_and_leaves_when_it_is_asked_to(self):
        words = self.program(TRAINING, self.at("out"), "0")
        self.assertEqual(words[-2:], ["ended-at", "3"])
        self.assertEqual(content(self.at("heartbeat")), b"3\n")
        for step in (2, 3):
            mark = json.loads(content(self.at("out/checkpoint-%d/.muster-complete" % step)))
            self.assertEqual(mark["step"], step)
            self.assertGreater(mark["files"], 3)
        lines = [json.loads(line) for line in content(self.at("metrics")).splitlines()]
        self.assertEqual([line["step"] for line in lines if "loss" in line], [1, 2, 3])
        self.assertEqual(lines[0]["total_steps"], 12)
        self.assertIsInstance(lines[0]["loss"], float)

    def test_outside_of_a_job_the_trainer_is_left_alone(self):
        for name in self.variables():
            del os.environ[name]
        words = self.program(TRAINING, self.at("out"), "never")
        self.assertEqual(words[-2:], ["ended-at", "12"])
        self.assertEqual(os.listdir(self.work), ["out"])
        self.assertNotIn(".muster-complete", os.listdir(self.at("out/checkpoint-12")))

    def test_a_marker_that_cannot_be_written_does_not_end_the_training(self):
        for step in range(2, 13, 2):
            put(self.at("out/checkpoint-%d/.muster-complete/file" % step))
        words = self.program(TRAINING, self.at("out"), "never")
        self.assertEqual(words[-2:], ["ended-at", "12"])

    def test_ranks_leave_after_the_same_step_when_one_of_them_is_asked_to(self):
        ended, ranks = [], []
        for rank in range(2):
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                              MASTER_ADDR="127.0.0.1", MASTER_PORT="29581",
                              MUSTER_METRICS=self.at("metrics%d" % rank))
            os.environ["MUSTER_HEARTBEAT"] = self.at("heartbeat%d" % rank)
            ranks.append(subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(TRAINING), self.at("out"), "1"],
                env={**os.environ, "PYTHONPATH": KEEPER}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for rank in ranks:
            self.addCleanup(rank.kill)
        for rank in ranks:
            ended.append(rank.communicate(timeout=300)[0].split()[-2:])
        self.assertEqual(ended, [["ended-at", "3"]] * 2)
        self.assertEqual(content(self.at("heartbeat0")), content(self.at("heartbeat1")))
        self.assertTrue(os.path.exists(self.at("out/checkpoint-3/.muster-complete")))
        self.assertFalse(os.path.exists(self.at("metrics1")))  # rank 0 speaks for all


if __name__ == "__main__":
    unittest.main()
