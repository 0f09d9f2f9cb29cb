// The kernel's lines are those of Linux 6.18 (/dev/kmsg), the counters those of the same machine
// (version 1) and of the kernel's cgroup-v2 documentation.
#include "launcher/agent/watch/progress.h"

#include <fstream>

#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

// The files that a watch looks at, below a directory of its own.
struct Kernel {
  void write(const std::string& name, const std::string& text) const {
    root.write("/" + name, text);
  }
  void log(const std::string& text) const {
    std::ofstream(root.below("/kmsg"), std::ios::app) << text;
  }
  OomWatch watch() const {
    return OomWatch({root.path() + "/cgroup", root.path() + "/self", root.path() + "/kmsg"});
  }
  FakeRoot root;
};

const std::string kill_line =
    "3,44749,17446785985,-;Memory cgroup out of memory: Killed process 27020 (python3) "
    "total-vm:211880kB, anon-rss:29056kB, file-rss:6640kB, shmem-rss:0kB, UID:0 pgtables:124kB "
    "oom_score_adj:0\n";
const std::string control = "oom_kill_disable 0\nunder_oom 0\noom_kill ";

}  // namespace

TEST_CASE("the kernel's line on a kill gives the process") {
  const auto kill = oom_kill_of(kill_line);
  REQUIRE(kill);
  CHECK(kill->pid == 27020);
  CHECK(kill->sentence.starts_with("out of memory: Killed process 27020 (python3) total-vm"));
  CHECK(kill->sentence.ends_with("oom_score_adj:0"));
  CHECK(oom_kill_of("[123.4] Out of memory: Killed process 7 (dd) total-vm:1kB")->pid == 7);
}

TEST_CASE("other lines of the kernel are no kills") {
  CHECK_FALSE(oom_kill_of("4,44670,17446785564,-;python3 invoked oom-killer: gfp_mask=0xcc0"));
  CHECK_FALSE(oom_kill_of("6,1,2,-;Killed process 7 (dd)"));
  CHECK_FALSE(oom_kill_of("ut of memory: Killed process 7"));
  CHECK_FALSE(oom_kill_of("3,1,2,-;Out of memory: Killed process x"));
  CHECK_FALSE(oom_kill_of(""));
}

TEST_CASE("both versions of cgroups count kills") {
  CHECK(oom_kills_of("low 0\nhigh 0\nmax 97\noom 1\noom_kill 3\noom_group_kill 0\n") == 3);
  CHECK(oom_kills_of(control + "1\n") == 1);
  CHECK_FALSE(oom_kills_of("oom_kill_disable 0\nunder_oom 0\n"));
  CHECK_FALSE(oom_kills_of(""));
}

TEST_CASE("the counters of both versions are looked for where the process is, then at the root") {
  CHECK(counter_paths("5:devices:/\n4:cpu,memory:/job\n0::/\n", "/c") ==
        std::vector<std::string>{"/c/memory/job/memory.oom_control", "/c/memory/memory.oom_control",
                                 "/c/memory.events"});
  CHECK(counter_paths("0::/user.slice/a\n", "/c") ==
        std::vector<std::string>{"/c/user.slice/a/memory.events", "/c/memory.events"});
  CHECK(counter_paths("nonsense\n", "/c").empty());
}

TEST_CASE("the log tells which process it was, and once") {
  Kernel kernel;
  kernel.log("");
  OomWatch watch = kernel.watch();
  kernel.log(kill_line);
  CHECK(watch.evidence_of(5).empty());
  CHECK_THAT(watch.evidence_of(27020), ContainsSubstring("Killed process 27020 (python3)"));
  CHECK(watch.evidence_of(27020).empty());
}

TEST_CASE("kills from before the watch are not told") {
  Kernel kernel;
  kernel.log(kill_line);
  OomWatch watch = kernel.watch();
  CHECK(watch.evidence_of(27020).empty());
}

TEST_CASE("a count that rose is told once, without a log to read") {
  Kernel kernel;
  kernel.write("self", "4:memory:/job\n");
  kernel.write("cgroup/memory/job/memory.oom_control", control + "2\n");
  OomWatch watch = kernel.watch();
  CHECK(watch.evidence_of(5).empty());
  kernel.write("cgroup/memory/job/memory.oom_control", control + "3\n");
  CHECK_THAT(watch.evidence_of(5), ContainsSubstring("oom_kill rose from 2 to 3"));
  CHECK(watch.evidence_of(5).empty());
}

TEST_CASE("an old kernel counts only how often the limit was met") {
  Kernel kernel;
  kernel.write("self", "4:memory:/job\n");
  kernel.write("cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");
  kernel.write("cgroup/memory/job/memory.failcnt", "10\n");
  OomWatch watch = kernel.watch();
  CHECK(watch.evidence_of(5).empty());
  kernel.write("cgroup/memory/job/memory.failcnt", "97\n");
  CHECK_THAT(watch.evidence_of(5), ContainsSubstring("memory.failcnt rose from 10 to 97"));
}

TEST_CASE("a machine that shows nothing gives no evidence") {
  OomWatch watch({"/nonexistent", "/nonexistent", "/nonexistent"});
  CHECK(watch.evidence_of(1).empty());
}
