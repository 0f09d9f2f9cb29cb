// When a rank ended, as its agent tells it: never a span that leaves the true moment out.
#include <charconv>
#include <csignal>

#include "launcher/os/clocks.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

struct Started {
  explicit Started(const StartRanks& request) {
    client.emplace(node.begin());
    const auto done = client->ask<StartDone>(request);
    REQUIRE(done.error == "");
  }
  // Of the rank, which says its number first.
  pid_t pid() {
    REQUIRE(client->wait([&] { return client->output(0).ends_with('\n'); }));
    const std::string& text = client->output(0);
    pid_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    REQUIRE(number > 1);
    return number;
  }
  RankEnded end() {
    REQUIRE(client->wait([&] { return client->ended().contains(0); }));
    return client->ended()[0];
  }
  TestNode node;
  std::optional<AgentClient> client;
};

bool is_zombie(pid_t pid) {
  return read_file("/proc/" + std::to_string(pid) + "/stat").find(") Z ") != std::string::npos;
}

// Kills the rank while the agent is held up; the moments before and after its death.
std::pair<std::int64_t, std::int64_t> die_unseen(Started& job, pid_t rank, int signal) {
  REQUIRE(::kill(job.node.agent_pid(), SIGSTOP) == 0);
  const std::int64_t before_us = raw_time().count();
  REQUIRE(::kill(rank, signal) == 0);
  REQUIRE(eventually([&] { return is_zombie(rank); }));
  return {before_us, raw_time().count()};
}

}  // namespace

TEST_CASE("what a failed rank left in its error file is told with its end, of others nothing") {
  const std::string leave =
      "echo '{\"message\": {\"message\": \"ValueError: shard 7\"}}' "
      ">$TORCHELASTIC_ERROR_FILE; ";
  StartRanks request = a_start(leave + "exit 3");
  request.environment["TORCHELASTIC_RUN_ID"] = "job";
  CHECK(Started(request).end().evidence.error == "ValueError: shard 7");
  request.command = leave + "exit 0";
  CHECK(Started(request).end().evidence.error == "");
  request.command = leave + "kill -9 $$";
  CHECK(Started(request).end().evidence.error == "");
  request.command = "mkfifo $TORCHELASTIC_ERROR_FILE; exit 3";
  CHECK(Started(request).end().evidence.error == "");
}

TEST_CASE("the end of a rank is told as a span of the node's clock") {
  const std::int64_t before_us = raw_time().count();
  Started job(a_start("exit 3"));
  const RankEnded ended = job.end();
  REQUIRE(ended.span);
  CHECK(ended.span->earliest_us >= before_us);
  CHECK(ended.span->earliest_us <= ended.span->latest_us);
  CHECK(ended.span->latest_us <= raw_time().count());
}

TEST_CASE("the span of an end is as narrow as the agent looks, though ranks run for long") {
  Started job(a_start("echo $$; sleep 1; exit 3"));
  const RankEnded ended = job.end();
  REQUIRE(ended.span);
  // Without its own looks the agent would know no more than since when it last had another child.
  CHECK(ended.span->latest_us - ended.span->earliest_us < 500'000);
}

TEST_CASE("the span holds the true end, however long the agent was held up") {
  Started job(a_start("echo $$; exec sleep 600"));
  const auto [before_us, after_us] = die_unseen(job, job.pid(), SIGKILL);
  const std::int64_t resumed_us = raw_time().count();
  REQUIRE(::kill(job.node.agent_pid(), SIGCONT) == 0);
  const RankEnded ended = job.end();
  REQUIRE(ended.span);
  CHECK(ended.span->earliest_us <= after_us);
  CHECK(ended.span->latest_us >= resumed_us);
  CHECK(before_us <= ended.span->latest_us);
}

TEST_CASE("a rank that died before it was asked to stop did so by itself") {
  Started job(a_start("echo $$; exec sleep 600"));
  die_unseen(job, job.pid(), SIGSEGV);
  job.client->send(a_stop());
  REQUIRE(::kill(job.node.agent_pid(), SIGCONT) == 0);
  const RankEnded ended = job.end();
  CHECK(ended.status.signal == SIGSEGV);
  CHECK_FALSE(ended.asked_to_stop);
}

TEST_CASE("a rank's last step is told with its end") {
  Started job(a_start("echo 412 >$MUSTER_HEARTBEAT; exit 1"));
  CHECK(job.end().evidence.last_step == 412);
}
