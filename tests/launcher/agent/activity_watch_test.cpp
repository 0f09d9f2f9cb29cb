// Real processes, looked at with a clock that the test moves.
#include "launcher/agent/activity_watch.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "launcher/agent/rank_look.h"
#include "launcher/agent/rank_vitals.h"
#include "launcher/agent/spawn.h"
#include "tests/catch.h"

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
  watch.watch.tell_again();
  CHECK(watch.after(tick)->doing == Doing::working);
  CHECK(watch.after(long_enough)->doing == Doing::quiet);
  watch.watch.tell_again();
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
  const auto looks = look_at_ranks({{RankId{0}, {stopped.pid}},
                                    {RankId{1}, {sleeper.pid, child}},
                                    {RankId{2}, {}}},
                                   "/nonexistent");
  REQUIRE(looks.size() == 3);
  CHECK_THAT(looks[0].lines.front(), ContainsSubstring("(sleep) is stopped by a signal (T)"));
  CHECK_THAT(looks[0].lines.front(), ContainsSubstring("used 0.00 s of a processor in 1 s"));
  CHECK(looks[1].lines.size() >= 3);
  CHECK_THAT(looks[1].lines.front(), ContainsSubstring("is asleep (S)"));
  CHECK_THAT(looks[0].lines.back(), ContainsSubstring("network moved"));
}
