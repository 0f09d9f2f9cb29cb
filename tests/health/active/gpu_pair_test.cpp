// Both halves of an all-reduce of two nodes, as programs on this host: with CUDA and NCCL of
// fake_cuda.cpp, and with two GPUs where there are any.
#include <stdlib.h>

#include <chrono>
#include <filesystem>

#include "health/active/probe_socket.h"
#include "health/benchmark/samples.h"
#include "health/read/tool_process.h"
#include "tests/catch.h"
#include "tests/skip.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr const char* token = "a-token-of-this-run";

std::string a_free_port() {
  const auto listener = listen_on("127.0.0.1", 0);
  REQUIRE(listener);
  return std::to_string(port_of(*listener));
}

struct Half {
  std::string program = MUSTER_FAKE_GPU_PROBE;
  Words environment = {"FAKE_GPUS=4"};
  std::string token = ::token;
  Words options = {};
};

struct Said {
  std::optional<int> code;
  std::vector<PerformanceSample> samples;
  std::string errors;
};

class HalfProcess {
 public:
  HalfProcess(const Half& half, const Words& words) : process_(argv_of(half, words)) {}
  Said said(std::chrono::seconds limit = 60s) {
    const ToolRun run = process_.wait(Clock::now() + limit);
    INFO(run.output << run.errors);
    const ProbeOutput output = read_probe_output(run.output);
    CHECK(output.refused == 0);
    return {run.exit_code, output.samples, run.errors};
  }

 private:
  static Words argv_of(const Half& half, const Words& words) {
    Words argv{"env", "MUSTER_PROBE_TOKEN=" + half.token};
    argv.insert(argv.end(), half.environment.begin(), half.environment.end());
    argv.push_back(half.program);
    argv.insert(argv.end(), words.begin(), words.end());
    argv.insert(argv.end(), half.options.begin(), half.options.end());
    return argv;
  }
  ToolProcess process_;
};

Words serving_on(const std::string& port) {
  return {"gpu-nccl-pair-serve", "--port", port, "--address", "127.0.0.1", "--seconds", "20"};
}
Words connecting_to(const std::string& port) {
  return {"gpu-nccl-pair-connect", "127.0.0.1", "--port", port, "--seconds", "1"};
}

struct Pair {
  PerformanceSample serving;
  PerformanceSample connecting;
};

Pair together(const Half& serving, const Half& connecting) {
  const std::string port = a_free_port();
  HalfProcess server(serving, serving_on(port));
  HalfProcess client(connecting, connecting_to(port));
  const Said mine = client.said();
  const Said theirs = server.said();
  REQUIRE(mine.samples.size() == 1);
  REQUIRE(theirs.samples.size() == 1);
  CHECK(mine.code == 0);
  CHECK(theirs.code == 0);
  CHECK(mine.samples[0].metric == "two_node_allreduce_gb_per_s");
  CHECK(mine.samples[0].device.empty());
  return {theirs.samples[0], mine.samples[0]};
}

Half doing(const std::string& what) {
  Half half;
  half.environment.push_back("FAKE_NCCL=" + what);
  return half;
}

Half soon_out_of_time(const std::string& what) {
  Half half = doing(what);
  half.options = {"--limit", "2"};
  return half;
}

}  // namespace

TEST_CASE("both halves print the same bus bandwidth of all their GPUs") {
  Half other;
  other.environment = {"FAKE_GPUS=2", "FAKE_NCCL=slow-open"};
  const Pair pair = together(Half{}, other);
  REQUIRE(pair.connecting.value);
  // 10 GB/s of the model and 2 (6 - 1) / 6 of each byte; a busy host is late now and then.
  CHECK(*pair.connecting.value < 17);
  CHECK(*pair.connecting.value > 1);
  CHECK(pair.serving.value == pair.connecting.value);
}

TEST_CASE("a node on which NCCL fails says why, and its partner does not wait for it") {
  const auto begun = Clock::now();
  const Pair pair = together(Half{}, doing("fail-open"));
  CHECK_THAT(pair.connecting.error, ContainsSubstring("ncclCommInitRankConfig: unhandled"));
  CHECK_THAT(pair.serving.error, ContainsSubstring("the other node: ncclCommInitRankConfig"));
  CHECK(Clock::now() - begun < 30s);
}

TEST_CASE("a wrong sum is no bandwidth, on either node") {
  const Pair pair = together(doing("wrong-sum"), Half{});
  CHECK(pair.serving.error == "a GPU got a wrong sum");
  CHECK(pair.connecting.error == "the other node: a GPU got a wrong sum");
}

TEST_CASE("NCCL that does not get through is ended on both nodes, while it opens or reduces") {
  for (const char* hang : {"hang-open", "hang-reduce"}) {
    CAPTURE(hang);
    const auto begun = Clock::now();
    const Pair pair = together(soon_out_of_time(hang), soon_out_of_time(hang));
    CHECK_FALSE(pair.serving.value);
    CHECK_FALSE(pair.connecting.value);
    CHECK_THAT(pair.serving.error + pair.connecting.error,
               ContainsSubstring("NCCL did not get through in time"));
    CHECK(Clock::now() - begun < 30s);
  }
}

TEST_CASE("where NCCL does not return, or not from its own end, the program ends") {
  const auto begun = Clock::now();
  const Pair blocked = together(soon_out_of_time("hang-open"), soon_out_of_time("block-open"));
  CHECK(blocked.connecting.error == "NCCL hangs");
  // What was known before is not lost.
  const Pair pair = together(doing("fail-open"), soon_out_of_time("hang-reduce,block-abort"));
  CHECK_THAT(pair.connecting.error, ContainsSubstring("the other node: ncclCommInitRankConfig"));
  const Pair good = together(Half{}, soon_out_of_time("block-abort"));
  CHECK(good.connecting.value.value_or(0) > 1);
  CHECK(Clock::now() - begun < 60s);
}

TEST_CASE("a partner that is killed ends the other half at once") {
  const std::string port = a_free_port();
  HalfProcess server(Half{}, serving_on(port));
  const auto begun = Clock::now();
  {
    HalfProcess client(doing("hang-open"), connecting_to(port));
    // Until they have met: the serving half closes its door then.
    while (listen_on("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port)))) {
      REQUIRE(Clock::now() - begun < 20s);
    }
    CHECK_FALSE(client.said(3s).code);
  }
  const Said said = server.said();
  REQUIRE(said.samples.size() == 1);
  CHECK_FALSE(said.samples[0].value);
  CHECK(Clock::now() - begun < 30s);
}

TEST_CASE("a half with another token is refused, and one without GPUs says so") {
  Half stranger;
  stranger.token = "another-token-here";
  const std::string port = a_free_port();
  HalfProcess server(Half{}, serving_on(port));
  const Said refused = HalfProcess(stranger, connecting_to(port)).said();
  REQUIRE(refused.samples.size() == 1);
  CHECK_THAT(refused.samples[0].error, ContainsSubstring("another token"));
  Half bare;
  bare.environment.clear();
  const Said none = HalfProcess(bare, connecting_to(port)).said();
  REQUIRE(none.samples.size() == 1);
  CHECK(none.samples[0].is_absent);
  CHECK_THAT(none.samples[0].error, ContainsSubstring("no driver"));
}

TEST_CASE("words that make no sense are a wrong use, and a half needs its token") {
  for (const Words& words :
       {Words{"gpu-nccl-pair-serve"}, Words{"gpu-nccl-pair-serve", "--port", "0"},
        Words{"gpu-nccl-pair-serve", "--port", "70000"},
        Words{"gpu-nccl-pair-serve", "host", "--port", "7001"},
        Words{"gpu-nccl-pair-connect", "--port", "7001"},
        Words{"gpu-nccl-pair-connect", "", "--port", "7001"},
        Words{"gpu-nccl-pair-connect", "host", "--port", "7001", "--seconds", "121"},
        Words{"gpu-nccl-pair-connect", "host", "--port", "7001", "--hca", "mlx5_0"},
        Words{"gpu-nccl-pair", "--port", "7001"}, Words{"gpu-host", "--port", "7001"}, Words{}}) {
    const Said said = HalfProcess(Half{}, words).said();
    CHECK(said.code == 2);
    CHECK(said.samples.empty());
  }
  Half unknown;
  unknown.token = "short";
  CHECK(HalfProcess(unknown, serving_on("7001")).said().code == 2);
}

TEST_CASE("NCCL's version is told without a GPU") {
  for (const char* program : {MUSTER_FAKE_GPU_PROBE, MUSTER_GPU_PROBE}) {
    const ToolRun run = ToolProcess({program, "nccl-version"}).wait(Clock::now() + 60s);
    CHECK(run.exit_code == 0);
    CHECK(run.output.size() >= 6);
    CHECK(std::stoi(run.output) > 20'000);
  }
}

TEST_CASE("two GPUs of this host reduce as two nodes") {
  std::error_code none;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", none);
  if (none || std::distance(gpus, {}) < 2) {
    skip_test("no GPU, or one only");
    return;
  }
  Half first{MUSTER_GPU_PROBE, {"CUDA_VISIBLE_DEVICES=0"}, token, {}};
  Half second{MUSTER_GPU_PROBE, {"CUDA_VISIBLE_DEVICES=1"}, token, {}};
  const Pair pair = together(first, second);
  INFO(pair.connecting.error);
  CHECK(pair.connecting.value.value_or(0) > 0.1);
  CHECK(pair.serving.value == pair.connecting.value);
}
