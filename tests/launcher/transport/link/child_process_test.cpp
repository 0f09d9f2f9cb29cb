#include "launcher/transport/link/child_process.h"

#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <optional>

#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

struct RunningChild {
  boost::asio::io_context io;
  std::string said;
  std::string complained;
  std::optional<RemoteExit> exit;
  std::unique_ptr<RemoteProcess> process;

  explicit RunningChild(const std::vector<std::string>& argv) : process(start_child(io, argv)) {
    process->handle({[this](std::span<const std::byte> bytes) {
                       said.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                     },
                     [this](std::string_view text) { complained += text; }, [] {},
                     [this](const RemoteExit& how) { exit = how; }});
  }
  void await_exit() {
    REQUIRE(drive(io, [this] { return exit.has_value(); }));
  }
};

TEST_CASE("what a child says, and how it ends, is told") {
  RunningChild child({"sh", "-c", "read word; echo \"got $word\"; echo no >&2; exit 3"});
  child.process->write("it\n");
  child.await_exit();
  CHECK(child.said == "got it\n");
  CHECK(child.complained == "no\n");
  CHECK(child.exit->status == 3);
  CHECK(child.exit->reason.empty());
}

TEST_CASE("a child that is killed, or cannot be started, has no exit code but a reason") {
  RunningChild killed({"sh", "-c", "kill -9 $$"});
  killed.await_exit();
  CHECK_FALSE(killed.exit->status);
  CHECK(killed.exit->reason == "killed by signal 9");
  RunningChild absent({"/nowhere/ssh"});
  absent.await_exit();
  CHECK_FALSE(absent.exit->status);
  CHECK_THAT(absent.exit->reason, ContainsSubstring("/nowhere/ssh"));
}

TEST_CASE("a child that nobody wants any more is killed with its own, and not left behind") {
  RunningChild child({"sh", "-c", "sleep 60 & echo $$ $!; wait"});
  REQUIRE(drive(child.io, [&] { return child.said.ends_with('\n'); }));
  const pid_t shell = std::stoi(child.said);
  const std::string below =
      "/proc/" + std::to_string(std::stoi(child.said.substr(child.said.find(' ')))) + "/cmdline";
  const auto is_there = [](pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; };
  CHECK(is_there(shell));
  CHECK(drive(child.io, [&] { return read_text(below).find("sleep") != std::string::npos; }));
  child.process.reset();
  CHECK(drive(
      child.io, [&] { return !is_there(shell); }, std::chrono::seconds(10)));
  // To bury the other one is init's business: it is gone, or has no words any more.
  CHECK(drive(
      child.io, [&] { return read_text(below).empty(); }, std::chrono::seconds(10)));
  CHECK_FALSE(child.exit);
}

}  // namespace
}  // namespace muster
