// No byte of a rank's output is lost and none comes twice, whatever the rank does with its streams
// and whoever is killed, away or without room meanwhile.
#include <sys/mount.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "launcher/agent/keeper/spool.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"
#include "tests/skip.h"

using namespace muster;

namespace {

void start(AgentClient& client, const std::string& command) {
  const auto done = client.ask<StartDone>(a_start(command));
  REQUIRE(done.error == "");
}

void clean(AgentClient& client) {
  client.ask<AttemptClean>(a_stop(std::chrono::milliseconds{0}));
  CHECK(client.fault == "");
}

std::string spool_path(const TestNode& node) {
  return node.run_directory() + "/attempts/job/0/rank-0.out";
}

std::int64_t spool_size(const TestNode& node) {
  struct stat facts {};
  return ::stat(spool_path(node).c_str(), &facts) == 0 ? facts.st_size : 0;
}

// Writes numbered lines as fast as it can, and after each write notes in `path` how many bytes
// write() has taken so far.
std::string numbering_rank(const std::string& path) {
  return "exec python3 -c 'import mmap, os, struct\n"
         "file = open(\"" +
         path +
         "\", \"r+b\")\n"
         "count = mmap.mmap(file.fileno(), 8)\n"
         "number = size = 0\n"
         "while True:\n"
         "  number += 1\n"
         "  size += os.write(1, b\"%0199d\\n\" % number)\n"
         "  count[:] = struct.pack(\"q\", size)\n'";
}

std::int64_t written_bytes(const std::string& path) {
  const std::string bytes = read_file(path);
  std::int64_t count = 0;
  REQUIRE(bytes.size() == sizeof count);
  std::memcpy(&count, bytes.data(), sizeof count);
  return count;
}

// The first line that is not the one after its neighbour; 0 when all are.
std::int64_t first_wrong_line(const std::string& text) {
  char line[256];
  for (std::size_t at = 0, number = 1; at < text.size(); at += 200, ++number) {
    std::snprintf(line, sizeof line, "%0199zu\n", number);
    if (text.compare(at, 200, line) != 0) return static_cast<std::int64_t>(number);
  }
  return 0;
}

std::string agent_log(const TestNode& node) {
  return read_file(node.run_directory() + "/agent.log");
}

// The beginning of 1, 2, 3 …, a line each.
std::string counted(std::size_t bytes) {
  std::string text;
  for (int i = 1; text.size() < bytes; ++i) text += std::to_string(i) + "\n";
  return text.substr(0, bytes);
}

class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    is_there_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=3m") == 0;
    if (!is_there_) skip_test("mounting a small file system needs root");
  }
  ~SmallDisk() {
    if (is_there_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_there() const { return is_there_; }
  void grow() const {
    REQUIRE(::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0);
  }

 private:
  std::string path_;
  bool is_there_ = false;
};

void kill_keeper_and_await_the_next(const TestNode& node) {
  pid_t first = 0;
  REQUIRE(eventually([&] { return (first = node.keeper_pid()) > 0; }));
  ::kill(first, SIGKILL);
  REQUIRE(eventually([&] {
    const pid_t now = node.keeper_pid();
    return now > 0 && now != first;
  }));
}

}  // namespace

TEST_CASE("a program that opens /dev/stderr anew empties nothing") {
  TestNode node;
  AgentClient client = node.begin();
  start(
      client,
      "echo before; echo warned > /dev/stderr; echo both | tee /dev/stderr; echo x > /dev/stdout; "
      "echo after");
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.output(0) == "before\nwarned\nboth\nboth\nx\nafter\n");
  clean(client);
}

TEST_CASE("a rank has no descriptor of its agent but its input and its output") {
  TestNode node;
  AgentClient client = node.begin();
  start(client, "for fd in /proc/$$/fd/*; do [ -L $fd ] && echo ${fd##*/}; done; exit 0");
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.output(0) == "0\n1\n2\n");
  clean(client);
}

TEST_CASE("an agent killed while a rank writes loses and repeats no byte") {
  const bool is_frozen_first = GENERATE(false, true);  // then the pipe is full
  const bool is_next_at_once = GENERATE(false, true);  // or the keeper moves the rest
  const bool is_keeper_replaced = GENERATE(false, true);
  CAPTURE(is_frozen_first, is_next_at_once, is_keeper_replaced);
  TestNode node;
  const std::string count = node.home() + "/count";
  std::ofstream(count, std::ios::binary).write("\0\0\0\0\0\0\0\0", 8);
  REQUIRE(node.serve() == 0);
  pid_t keeper = 0;
  {
    AgentClient client = node.greeted();
    client.acknowledges = false;
    start(client, numbering_rank(count));
    REQUIRE(eventually([&] { return written_bytes(count) > 100'000; }));
    if (is_keeper_replaced) kill_keeper_and_await_the_next(node);
    keeper = node.keeper_pid();
    const auto delay = std::chrono::microseconds(std::random_device()() % 200'000);
    INFO("killed after " << delay.count() << " us");
    std::this_thread::sleep_for(delay);  // a random moment, nothing is waited for
    if (is_frozen_first) {
      ::kill(node.agent_pid(), SIGSTOP);
      REQUIRE(eventually(
          [&] { return written_bytes(count) > spool_size(node) + output_pipe_bytes / 2; }));
    }
    node.kill_agent();
  }
  if (!is_next_at_once) REQUIRE(eventually([&] { return !is_running(keeper); }));
  AgentClient client = node.begin();
  clean(client);
  const std::string& text = client.output(0);
  CHECK(first_wrong_line(text.substr(0, text.size() / 200 * 200)) == 0);
  CHECK(static_cast<std::int64_t>(text.size()) >= written_bytes(count));
}

TEST_CASE("the last output of a rank outlives its agent and its keeper") {
  const bool is_agent_first = GENERATE(false, true);
  CAPTURE(is_agent_first);
  TestNode node;
  REQUIRE(node.serve() == 0);
  const std::string mark = node.home() + "/mark";
  {
    AgentClient client = node.greeted();
    client.acknowledges = false;
    start(client, "echo first; until [ -e " + mark + "-go ]; do sleep 0.01; done; "
                  "echo second; echo third; touch " + mark + "-done");
    REQUIRE(client.wait([&] { return client.output(0) == "first\n"; }));
    const pid_t agent = node.agent_pid();
    pid_t keeper = 0;
    REQUIRE(eventually([&] { return (keeper = node.keeper_pid()) > 0; }));
    ::kill(agent, SIGSTOP);  // it moves nothing any more
    std::ofstream(mark + "-go").close();
    REQUIRE(eventually([&] { return std::filesystem::exists(mark + "-done"); }));
    if (is_agent_first) ::kill(agent, SIGKILL);
    ::kill(keeper, SIGKILL);
    if (!is_agent_first) {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});  // nothing is waited for
      ::kill(agent, SIGKILL);
    }
    REQUIRE(eventually([&] { return !is_running(agent) && !is_running(keeper); }));
  }
  AgentClient client = node.begin();
  clean(client);
  CHECK(client.output(0) == "first\nsecond\nthird\n");
}

TEST_CASE("a rank's end is told although a process it left holds its output open") {
  const char* left = GENERATE("exec sleep 1000", "while :; do echo noise; done");
  TestNode node;
  AgentClient client = node.begin();
  start(client,
        "head -c 300000 /dev/zero; echo end; (setsid sh -c '" + std::string(left) + "' &); exit 3");
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.ended()[0].status.code == 3);
  CHECK(client.output(0).substr(0, 300'004) == std::string(300'000, '\0') + "end\n");
  clean(client);
}

TEST_CASE("a rank that is too far ahead of its controller waits and loses nothing") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  constexpr std::int64_t total = 1'200'000'000;
  AgentClient absent = node.greeted();
  absent.acknowledges = false;
  absent.keeps_output = false;
  start(absent, "head -c " + std::to_string(total) + " /dev/zero");
  REQUIRE(eventually([&] { return spool_size(node) >= spool_limit_bytes; }, patience));
  // Several of the agent's ticks later it is still so.
  CHECK_FALSE(absent.wait([&] { return absent.ended().contains(0); }, std::chrono::seconds{2}));
  CHECK(spool_size(node) < spool_limit_bytes + output_pipe_bytes);
  AgentClient client = node.greeted();
  client.keeps_output = false;
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  clean(client);
  CHECK(client.output_bytes == total);
  struct stat facts {};
  CHECK(::stat((node.run_directory() + "/attempts/job/0/rank-0.pipe").c_str(), &facts) != 0);
}

TEST_CASE("while the disk is full output goes to the controller, and the end is told") {
  TestNode node;
  const SmallDisk disk(node.run_directory() + "/attempts");
  if (!disk.is_there()) return;
  AgentClient client = node.begin();
  client.acknowledges = false;
  start(client, "seq 1 1000000 | head -c 6000000; echo; echo last words; exit 3");
  REQUIRE(client.wait([&] { return agent_log(node).find("No space left") != std::string::npos; }));
  client = node.greeted();
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.ended()[0].status.code == 3);
  REQUIRE_FALSE(client.ended()[0].last_lines.empty());
  CHECK(client.ended()[0].last_lines.back() == "last words");
  clean(client);
  CHECK(client.output(0) == counted(6'000'000) + "\nlast words\n");
}

TEST_CASE("a rank whose spool finds no room on the disk waits for room and loses nothing") {
  TestNode node;
  const SmallDisk disk(node.run_directory() + "/attempts");
  if (!disk.is_there()) return;
  AgentClient client = node.begin();
  client.acknowledges = false;
  start(client, "seq 1 1000000 | head -c 6000000");
  const auto words = [&] {
    const std::string log = agent_log(node);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = log.find("No space left", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  };
  REQUIRE(client.wait([&] { return words() > 0; }));
  CHECK_FALSE(client.wait([&] { return client.ended().contains(0); }, std::chrono::seconds{2}));
  CHECK(words() == 1);
  SECTION("with the same agent") {}
  SECTION("with the next agent, and the keeper in between") {
    node.kill_agent();
  }
  const bool is_killed = node.agent_pid() == 0;
  disk.grow();
  if (is_killed) REQUIRE(node.serve() == 0);
  client = node.greeted();
  if (!is_killed) REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  clean(client);
  const std::string& text = client.output(0);
  // 3 MiB less other files, and what the pipe holds.
  CHECK(text.size() >= (is_killed ? 3'200'000 : 6'000'000));
  CHECK((text == counted(text.size())));
}
