// The process that holds the pipes of an agent's ranks: this process is the agent.
#include "launcher/agent/keeper/keeper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "launcher/agent/node/process_scan.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

template <class Holds>
bool comes_true(Holds holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return false;
}

struct KeptRun {
  KeptRun() {
    auto opened = open_run_directory(home, "c", NodeId{"n"});
    REQUIRE(opened);
    run.emplace(std::move(*opened));
    lease = Lease::create();
    REQUIRE(lease);
    lease->grant(BootTime::max() / 2);
    keeper.emplace(*run, *lease);
  }
  ~KeptRun() {
    keeper->dismiss();
    if (const auto pid = keeper->pid()) {
      ::kill(*pid, SIGKILL);
      ::waitpid(*pid, nullptr, 0);
    }
  }
  std::string path(int number) const { return home + "/pipe" + std::to_string(number); }
  // Of pipes first … last, each with a byte in it.
  std::vector<Fd> pipes(int first, int last) const {
    std::vector<Fd> open;
    for (int i = first; i <= last; ++i) {
      REQUIRE(::mkfifo(path(i).c_str(), 0600) == 0);
      open.emplace_back(::open(path(i).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
      REQUIRE(::write(open.back().get(), "x", 1) == 1);
    }
    return open;
  }
  bool is_held(int number) const {
    const Fd pipe(::open(path(number).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    char byte = 0;
    return ::read(pipe.get(), &byte, 1) == 1 && byte == 'x';
  }
  // The numbers of the pipes that the process has open.
  std::set<int> held_by(pid_t process) const {
    std::set<int> numbers;
    std::error_code failed;
    const std::string files = "/proc/" + std::to_string(process) + "/fd";
    for (const auto& file : std::filesystem::directory_iterator(files, failed)) {
      const std::string target = std::filesystem::read_symlink(file.path(), failed).string();
      const std::string start = home + "/pipe";
      if (target.starts_with(start)) numbers.insert(std::stoi(target.substr(start.size())));
    }
    return numbers;
  }
  // Another one than `before`; 0: there is none.
  pid_t standby_of(pid_t of, pid_t before = 0) const {
    pid_t found = 0;
    comes_true([&] {
      for (const ProcessInfo& process : scan_processes()) {
        const bool is_other = process.pid != before && !process.is_dead();
        if (is_other && process.parent == of && process.name == "muster-keeper") {
          found = process.pid;
        }
      }
      return found > 0;
    });
    return found;
  }
  bool ends(pid_t pid) const {
    return comes_true([&] {
      const auto process = read_process(pid);
      return !process || process->is_dead();
    });
  }
  // -1: it goes on.
  int status_of(pid_t pid) const {
    int status = -1;
    return comes_true([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }) ? status : -1;
  }

  FakeRoot folder;
  const std::string home = std::filesystem::canonical(folder.path());
  std::optional<RunDirectory> run;
  std::optional<Lease> lease;
  std::optional<ForkedKeeper> keeper;
};

std::vector<int> numbers_of(const std::vector<Fd>& pipes) {
  std::vector<int> numbers;
  for (const Fd& pipe : pipes) numbers.push_back(pipe.get());
  return numbers;
}

}  // namespace

TEST_CASE("a keeper holds all pipes that it is given, however many, until it is dismissed") {
  KeptRun one;
  {
    const auto first = one.pipes(1, 3);
    const auto more = one.pipes(4, 150);
    one.keeper->hold(numbers_of(more));  // nobody is there yet
    REQUIRE(one.keeper->ensure(numbers_of(first)));
    one.keeper->hold(numbers_of(more));
    const auto not_told = one.pipes(151, 151);
  }
  for (int i = 1; i <= 150; ++i) {
    INFO(i);
    CHECK(one.is_held(i));
  }
  CHECK_FALSE(one.is_held(151));
  const auto pid = one.keeper->pid();
  REQUIRE(pid);
  one.keeper->dismiss();
  const int status = one.status_of(*pid);
  REQUIRE(status != -1);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK_FALSE(one.keeper->reaped(*pid + 1));
  CHECK(one.keeper->pid() == pid);
  CHECK(one.keeper->reaped(*pid));
  CHECK_FALSE(one.keeper->pid());
  one.keeper->dismiss();  // there is none
}

TEST_CASE("there is one keeper at a time, and one that is stopped makes room for the next") {
  KeptRun one;
  REQUIRE(one.keeper->ensure({}));
  const pid_t first = one.keeper->pid().value();
  REQUIRE(one.keeper->ensure({}));
  CHECK(one.keeper->pid() == first);
  REQUIRE(::kill(first, SIGSTOP) == 0);
  int status = 0;
  REQUIRE(::waitpid(first, &status, WUNTRACED) == first);
  REQUIRE(WIFSTOPPED(status));
  REQUIRE(one.keeper->ensure({}));
  status = one.status_of(first);
  REQUIRE(status != -1);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(one.keeper->reaped(first));
  REQUIRE(one.keeper->ensure({}));
  CHECK(one.keeper->pid().has_value());
  CHECK(one.keeper->pid() != first);
}

TEST_CASE("a keeper is known by its name, and a signal that ends its agent does not end it") {
  KeptRun one;
  REQUIRE(one.keeper->ensure({}));
  const pid_t pid = one.keeper->pid().value();
  const auto is_named = [&] {
    const auto process = read_process(pid);
    return process && process->name == "muster-keeper" && process->session == pid;
  };
  REQUIRE(comes_true(is_named));
  ::kill(pid, SIGTERM);
  one.keeper->dismiss();
  const int status = one.status_of(pid);
  CHECK(WIFEXITED(status));
  CHECK(one.keeper->reaped(pid));
}

TEST_CASE("what a keeper holds is held by its standby too, and by the standby of that") {
  const int how = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(how);
  KeptRun one;
  pid_t keeper = 0;
  pid_t standby = 0;
  {
    const auto first = one.pipes(1, 3);
    REQUIRE(one.keeper->ensure(numbers_of(first)));
    keeper = one.keeper->pid().value();
    REQUIRE((standby = one.standby_of(keeper)) > 0);
    const auto more = one.pipes(4, 150);
    one.keeper->hold(numbers_of(more));
    // Told one after the other: the keeper has passed these on when it holds the last one.
    const auto last = one.pipes(151, 151);
    one.keeper->hold(numbers_of(last));
    const std::string held = "/proc/" + std::to_string(standby) + "/fd";
    REQUIRE(comes_true([&] {
      const auto begin = std::filesystem::directory_iterator(held);
      return std::distance(begin, std::filesystem::directory_iterator()) > 151;
    }));
  }
  // Nobody starts another keeper: this agent stands still.
  REQUIRE(::kill(keeper, how) == 0);
  REQUIRE(one.ends(keeper));
  const pid_t next = one.standby_of(standby);
  REQUIRE(next > 0);
  REQUIRE(::kill(standby, SIGKILL) == 0);
  REQUIRE(one.ends(standby));
  REQUIRE(one.standby_of(next) > 0);
  for (int i = 1; i <= 151; ++i) {
    INFO(i);
    CHECK(one.is_held(i));
  }
  // The agent goes on: one pair is left, and leaves with it.
  REQUIRE(one.status_of(keeper) != -1);
  REQUIRE(one.keeper->reaped(keeper));
  REQUIRE(one.keeper->ensure({}));
  CHECK(one.ends(next));
  const pid_t second = one.standby_of(one.keeper->pid().value());
  REQUIRE(second > 0);
  one.keeper->dismiss();
  CHECK(one.ends(second));
  CHECK(one.ends(one.keeper->pid().value()));
}

TEST_CASE("a standby that is killed or stopped is replaced") {
  const int how = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(how);
  KeptRun one;
  {
    const auto pipes = one.pipes(1, 3);
    REQUIRE(one.keeper->ensure(numbers_of(pipes)));
  }
  const pid_t keeper = one.keeper->pid().value();
  const pid_t first = one.standby_of(keeper);
  REQUIRE(first > 0);
  REQUIRE(::kill(first, how) == 0);
  CHECK(one.ends(first));
  const pid_t second = one.standby_of(keeper, first);
  CHECK(second > 0);
  REQUIRE(::kill(keeper, SIGKILL) == 0);
  REQUIRE(one.standby_of(second) > 0);
  for (int i = 1; i <= 3; ++i) CHECK(one.is_held(i));
}

TEST_CASE("a keeper lets go of pipes whose names are gone, and of nothing else") {
  KeptRun one;
  const auto first = one.pipes(1, 2);
  const auto third = one.pipes(3, 3);
  REQUIRE(one.keeper->ensure(numbers_of(first)));
  const pid_t pid = one.keeper->pid().value();
  one.keeper->hold(numbers_of(third));
  CHECK(comes_true([&] { return one.held_by(pid) == std::set{1, 2, 3}; }));
  std::filesystem::remove(one.path(1));
  std::filesystem::remove(one.path(3));
  const auto fourth = one.pipes(4, 4);
  one.keeper->hold(numbers_of(fourth));
  CHECK(comes_true([&] { return one.held_by(pid) == std::set{2, 4}; }));
}
