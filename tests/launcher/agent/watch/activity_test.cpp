// Real processes, looked at with a clock that the test moves.
#include "launcher/agent/watch/activity.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "launcher/agent/node/spawn.h"
#include "launcher/os/fd.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

using Moment = ActivityWatch::Moment;
constexpr RankId rank{3};
const std::vector<std::string> sleeping = {"sleep", "1000"};

struct Program {
  explicit Program(const std::string& script) : Program({"sh", "-c", script}) {}
  explicit Program(const std::vector<std::string>& argv) {
    const auto started = spawn({argv, {{"PATH", "/usr/bin:/bin"}}, "/", {}, 1, 2});
    REQUIRE(started);
    pid = *started;
  }
  ~Program() {
    for (const pid_t one : process_tree(pid, 10)) ::kill(one, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid = 0;
};

// Writes as many bytes as it is told, and says so.
class Writer {
 public:
  Writer() {
    int down[2], up[2];
    REQUIRE(::pipe2(down, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(up, O_CLOEXEC) == 0);
    pid = ::fork();
    if (pid == 0) {
      ::close(down[1]);
      const int nowhere = ::open("/dev/null", O_WRONLY);
      for (int bytes = 0; ::read(down[0], &bytes, sizeof bytes) == sizeof bytes;) {
        const std::string text(static_cast<std::size_t>(bytes), 'x');
        if (::write(nowhere, text.data(), text.size()) != bytes) ::_exit(1);
        if (::write(up[1], "+", 1) != 1) ::_exit(1);
      }
      ::_exit(0);
    }
    to_ = Fd(down[1]);
    from_ = Fd(up[0]);
    ::close(down[0]);
    ::close(up[1]);
  }
  ~Writer() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Writer(const Writer&) = delete;
  void write(int bytes) const {
    char word = 0;
    REQUIRE(::write(to_.get(), &bytes, sizeof bytes) == sizeof bytes);
    REQUIRE(::read(from_.get(), &word, 1) == 1);
  }
  pid_t pid = 0;

 private:
  Fd to_;
  Fd from_;
};

// Stays in one system call.
struct Calling {
  explicit Calling(long number) {
    pid = ::fork();
    if (pid != 0) return;
    sigset_t none;
    ::sigemptyset(&none);
    if (number == SYS_rt_sigsuspend) ::sigsuspend(&none);
    if (number == SYS_ppoll) ::syscall(number, nullptr, 0, nullptr, nullptr, 0);
    ::syscall(number, nullptr, 0, -1);
    ::_exit(0);
  }
  ~Calling() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  // What the kernel shows of it; empty: nothing here.
  std::string shown(const char* file) const {
    std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
    std::ostringstream text;
    text << in.rdbuf();  // an iterator would throw
    return text.str();
  }
  pid_t pid = 0;
};

template <class Holds>
bool soon(Holds holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(Milliseconds{5});
  }
  return false;
}

bool is_in_state(pid_t pid, char state) {
  return soon([&] {
    const auto now = read_process(pid);
    return now && now->state == state;
  });
}

pid_t child_of(pid_t pid) {
  pid_t child = 0;
  REQUIRE(soon([&] {
    const auto tree = process_tree(pid, 10);
    const auto info = tree.size() == 2 ? read_process(tree[1]) : std::nullopt;
    if (info && info->name == "sleep") child = tree[1];  // not the shell's copy of itself
    return child != 0;
  }));
  return child;
}

struct Watch {
  ActivityWatch watch;
  Moment now{std::chrono::seconds{1000}};
  explicit Watch(pid_t pid) { watch.add(rank, pid, now); }
  std::optional<RankDoing> after(std::chrono::milliseconds step) {
    now += step;
    watch.poll(now);
    const auto news = watch.news(now);
    if (!news || news->ranks.empty()) return std::nullopt;
    return news->ranks.front();
  }
};

constexpr std::chrono::milliseconds tick{500};
constexpr std::chrono::seconds long_enough{15};

}  // namespace

TEST_CASE("a rank that sleeps is quiet after ten seconds, said once") {
  const Program program(sleeping);
  REQUIRE(is_in_state(program.pid, 'S'));
  Watch watch(program.pid);
  CHECK(!watch.after(tick));
  CHECK(!watch.after(std::chrono::seconds{8}));
  const auto news = watch.after(long_enough);
  REQUIRE(news);
  CHECK(news->rank == rank);
  CHECK(news->doing == Doing::quiet);
  CHECK(!watch.after(long_enough));
}

TEST_CASE("a rank that is stopped is told of at the second look, with its process") {
  const Program program(sleeping);
  Watch watch(program.pid);
  CHECK(!watch.after(tick));
  ::kill(program.pid, SIGSTOP);
  REQUIRE(is_in_state(program.pid, 'T'));
  CHECK(!watch.after(tick));
  const auto news = watch.after(tick);
  REQUIRE(news);
  CHECK(news->doing == Doing::stopped);
  CHECK(news->age_ms == 500);
  CHECK(news->process == std::to_string(program.pid) + " (sleep)");
  ::kill(program.pid, SIGCONT);
  REQUIRE(is_in_state(program.pid, 'S'));
  const auto after = watch.after(tick);
  REQUIRE(after);
  CHECK(after->doing != Doing::stopped);
}

TEST_CASE("a debugger's look at a stopped rank ends its stop no sooner") {
  const Program program(sleeping);
  Watch watch(program.pid);
  ::kill(program.pid, SIGSTOP);
  REQUIRE(is_in_state(program.pid, 'T'));
  watch.after(tick);
  CHECK(watch.after(tick)->doing == Doing::stopped);
  REQUIRE(::ptrace(PTRACE_SEIZE, program.pid, nullptr, nullptr) == 0);
  REQUIRE(::ptrace(PTRACE_INTERRUPT, program.pid, nullptr, nullptr) == 0);
  REQUIRE(is_in_state(program.pid, 't'));
  CHECK(!watch.after(tick));
  CHECK(!watch.after(long_enough));
  REQUIRE(::ptrace(PTRACE_DETACH, program.pid, nullptr, nullptr) == 0);
}

TEST_CASE("a rank that a debugger holds is told of with the debugger, however long") {
  const Program program(sleeping);
  Watch watch(program.pid);
  watch.after(tick);
  REQUIRE(::ptrace(PTRACE_SEIZE, program.pid, nullptr, nullptr) == 0);
  CHECK(tracer_of(program.pid) == ::getpid());
  // A closer look of the agent's own is over by the next look.
  watch.after(std::chrono::seconds{5});
  const auto news = watch.after(std::chrono::seconds{5});
  REQUIRE(news);
  CHECK(news->doing == Doing::moving);
  CHECK_THAT(news->process, ContainsSubstring(std::to_string(::getpid()) + " ("));
  CHECK(!watch.after(std::chrono::seconds{60}));
  REQUIRE(::ptrace(PTRACE_INTERRUPT, program.pid, nullptr, nullptr) == 0);
  REQUIRE(is_in_state(program.pid, 't'));
  REQUIRE(::ptrace(PTRACE_DETACH, program.pid, nullptr, nullptr) == 0);
  const auto after = watch.after(std::chrono::seconds{5});
  REQUIRE(after);
  CHECK(after->process.empty());
  CHECK(after->doing == Doing::quiet);
}

TEST_CASE("what a rank itself runs under is no debugger that holds it") {
  const pid_t pid = ::fork();
  if (pid == 0) {  // a tracer with its program, as `strace python train.py`
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    ::ptrace(PTRACE_SEIZE, child, nullptr, nullptr);
    while (true) ::pause();
  }
  pid_t child = 0;
  CHECK(soon([&] {
    const auto tree = process_tree(pid, 10);
    if (tree.size() == 2) child = tree[1];
    return child != 0 && tracer_of(child) == pid;
  }));
  Watch watch(pid);
  watch.after(tick);
  watch.after(std::chrono::seconds{5});
  watch.after(std::chrono::seconds{5});
  const auto news = watch.after(long_enough);
  ::kill(child, SIGKILL);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  CHECK((!news || news->doing == Doing::quiet));
  CHECK((!news || news->process.empty()));
}

TEST_CASE("a stopped program behind the shell of its command counts when nothing else runs") {
  const Program program("sleep 1000; true");
  const pid_t child = child_of(program.pid);
  Watch watch(program.pid);
  watch.after(tick);
  watch.after(std::chrono::seconds{4});  // sees the child
  ::kill(child, SIGSTOP);
  REQUIRE(is_in_state(child, 'T'));
  watch.after(std::chrono::seconds{2});
  std::optional<RankDoing> news;
  for (int i = 0; i < 4 && !(news && news->doing == Doing::stopped); ++i) {
    news = watch.after(std::chrono::seconds{2});
  }
  REQUIRE(news);
  CHECK(news->doing == Doing::stopped);
  CHECK(news->process == std::to_string(child) + " (sleep)");
}

TEST_CASE("a rank that computes is at work however long it says nothing") {
  const Program program("while :; do :; done");
  REQUIRE(is_in_state(program.pid, 'R'));
  Watch watch(program.pid);
  const auto used = [&] { return read_process(program.pid)->cpu_ticks; };
  for (int i = 0; i < 4; ++i) {
    const auto before = used();
    REQUIRE(soon([&] { return used() > before + 10; }));
    CHECK(!watch.after(std::chrono::seconds{8}));
  }
}

TEST_CASE("a rank that writes moves data") {
  const Program program("while :; do head -c 4000000 /dev/zero >/dev/null; done");
  Watch watch(program.pid);
  std::optional<RankDoing> news;
  CHECK(soon([&] {
    if (auto doing = watch.after(std::chrono::seconds{4})) news = doing;
    return news && news->doing == Doing::moving;
  }));
}

TEST_CASE("data moves when it is enough over four seconds, however little at a time") {
  for (const int bytes : {100'000, 50'000}) {
    const Writer writer;
    Watch watch(writer.pid);
    CHECK(!watch.after(tick));
    for (int i = 0; i < 3; ++i) {
      writer.write(bytes);
      CHECK(!watch.after(tick));
    }
    const auto news = watch.after(std::chrono::seconds{3});
    CHECK(news.has_value() == (3 * bytes >= 256 << 10));
    if (news) CHECK(news->doing == Doing::moving);
  }
}

TEST_CASE("output and steps count as work") {
  const Program program(sleeping);
  Watch watch(program.pid);
  for (int i = 1; i < 10; ++i) {
    watch.watch.produced(rank, i, watch.now);
    CHECK(!watch.after(std::chrono::seconds{8}));
  }
  CHECK(watch.after(long_enough)->doing == Doing::quiet);
}

TEST_CASE("a controller that comes anew is told again, of ranks at work too") {
  const Program program(sleeping);
  Watch watch(program.pid);
  watch.watch.report_again();
  CHECK(watch.after(tick)->doing == Doing::working);
  CHECK(watch.after(long_enough)->doing == Doing::quiet);
  watch.watch.report_again();
  CHECK(watch.after(tick)->doing == Doing::quiet);
}

TEST_CASE("a rank that is gone is not spoken of") {
  const Program program(sleeping);
  Watch watch(program.pid);
  watch.watch.remove(rank);
  CHECK(!watch.after(long_enough));
  CHECK(watch.watch.processes_of(rank).empty());
}

TEST_CASE("a closer look tells state, place and use of each process, stopped ones too") {
  const Program sleeper("sleep 1000; true");
  const Program stopped(sleeping);
  ::kill(stopped.pid, SIGSTOP);
  REQUIRE(is_in_state(stopped.pid, 'T'));
  const pid_t child = child_of(sleeper.pid);
  struct Call {
    long number;
    std::string name;
  };
  const std::vector<Call> calls{
#ifdef SYS_poll
      {SYS_poll, "poll"},
#endif
      {SYS_ppoll, "ppoll"},
      {SYS_rt_sigsuspend, std::to_string(SYS_rt_sigsuspend)}};
  std::vector<std::unique_ptr<Calling>> callers;
  std::vector<RankProcesses> ranks{
      {RankId{0}, {stopped.pid}}, {RankId{1}, {sleeper.pid, child}}, {RankId{2}, {}}};
  for (const Call& call : calls) {
    callers.push_back(std::make_unique<Calling>(call.number));
    REQUIRE(is_in_state(callers.back()->pid, 'S'));
    ranks.push_back({RankId{static_cast<int>(ranks.size())}, {callers.back()->pid}});
  }
  const auto looks = inspect_ranks(ranks, "/nonexistent");
  REQUIRE(looks.size() == ranks.size());
  CHECK_THAT(looks[0].lines.front(), ContainsSubstring("(sleep) is stopped by a signal (T)"));
  CHECK_THAT(looks[0].lines.front(), ContainsSubstring("used 0.00 s of a processor in 1 s"));
  CHECK(looks[1].lines.size() >= 2);
  CHECK_THAT(looks[1].lines.front(), ContainsSubstring("is asleep (S)"));
  CHECK_THAT(looks[0].lines.back(), ContainsSubstring("network moved"));
  CHECK(looks[2].lines.empty());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::vector<std::string>& lines = looks[3 + i].lines;
    REQUIRE_FALSE(lines.empty());
    if (callers[i]->shown("syscall").starts_with(std::to_string(calls[i].number) + " ")) {
      CHECK(lines.front().ends_with(", system call " + calls[i].name));
    }
    const bool has_stack = callers[i]->shown("stack").find("] ") != std::string::npos;
    REQUIRE(lines.size() == std::size_t{has_stack ? 2u : 1u});
    const std::string place = "in the kernel " + std::to_string(callers[i]->pid) + " (";
    if (has_stack) CHECK(lines[1].starts_with(place));
    if (has_stack) CHECK_FALSE(lines[1].ends_with(": "));
  }
}

// Of Linux 6.1, shortened.
TEST_CASE("a node's network is all that its interfaces and InfiniBand ports received and sent") {
  FakeRoot root;
  CHECK(network_bytes(root.path()) == 0);
  root.write("/proc/net/dev",
             "Inter-|   Receive                                          |  Transmit\n"
             " face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n"
             "    lo:    1000       2    0    0    0     0     0         0     1000       2\n"
             "  eth0: 3000000    1200    0    0    0     0     0         7   500000     800\n");
  CHECK(network_bytes(root.path()) == 3'502'000);
  const std::string devices = "/sys/class/infiniband/";
  root.write(devices + "mlx5_0/ports/1/counters/port_xmit_data", "100\n");
  root.write(devices + "mlx5_0/ports/1/counters/port_rcv_data", "20\n");
  root.write(devices + "mlx5_1/ports/2/counters/port_rcv_data", "5\n");
  root.write(devices + ".old/ports/1/counters/port_rcv_data", "9\n");
  CHECK(network_bytes(root.path()) == 3'502'000 + 4 * 125);
}
