// Metrics in what ranks print.
#include <fstream>
#include <random>

#include "launcher/agent/metric_sources/follow.h"
#include "tests/launcher/agent/metric_sources/sample.h"

using namespace muster;
using Lines = std::vector<std::string>;

namespace {

OutputPatterns patterns_of(const std::vector<std::string>& texts) {
  OutputPatterns patterns;
  patterns.set(texts);
  return patterns;
}

Lines printed(OutputPatterns& patterns, std::string_view text, std::int64_t offset = 0,
              RankId rank = {0}) {
  patterns.take(rank, offset, text);
  return patterns.take().lines;
}

long pages_held() {
  long all = 0, held = 0;
  std::ifstream("/proc/self/statm") >> all >> held;
  return held;
}

}  // namespace

TEST_CASE("named groups are metrics, the group step their step") {
  auto patterns = patterns_of({R"(iter (?P<step>\d+).*loss=(?P<loss>\S+))", R"(lr (?P<lr>\S+))"});
  CHECK(printed(patterns, "iter 12: loss=0.5\nnothing\niter 13: loss=nan lr 1e-4\r") ==
        Lines{R"({"loss":0.5,"step":12})", R"({"loss":null,"lr":0.0001,"step":13})"});
  auto odd = patterns_of({R"(iter (?P<step>\d+).*loss=(?P<loss>\S+))"});
  CHECK(printed(odd, "iter 14: loss=-inf\niter 15: loss=x\niter 99999999999999999999 loss=1\n") ==
        Lines{R"({"loss":null,"step":14})", R"({"step":15})", R"({"loss":1.0})"});
  auto alone = patterns_of({R"(step (?P<step>\d+))"});
  CHECK(printed(alone, "step 7\nstep x\n") == Lines{R"({"step":7})"});
  CHECK(alone.take().state.step == 7);
}

TEST_CASE("output in pieces, and again after a new connection, tells each line once") {
  const std::string text = "loss=1\nloss=2\nloss=3\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    auto patterns = patterns_of({"loss=(?P<loss>\\d)"});
    patterns.take({0}, 0, text.substr(0, cut));
    patterns.take({0}, 0, text.substr(0, cut));
    patterns.take({0}, static_cast<std::int64_t>(cut), text.substr(cut));
    patterns.take({0}, 0, text);
    CHECK(patterns.take().lines == Lines{R"({"loss":1.0})", R"({"loss":2.0})", R"({"loss":3.0})"});
  }
}

TEST_CASE("of ranks that print the same the first counts") {
  auto patterns = patterns_of({"loss=(?P<loss>\\d)", "own=(?P<own>\\d)"});
  CHECK(printed(patterns, "loss=1\n", 0, {2}).size() == 1);
  CHECK(printed(patterns, "loss=2\nown=1\n", 0, {5}) == Lines{R"({"own":1.0})"});
  CHECK(printed(patterns, "loss=4\n", 7, {2}).size() == 1);
}

TEST_CASE("the preset hf reads what the Hugging Face Trainer prints") {
  auto patterns = patterns_of({"hf"});
  const Lines lines = printed(patterns, sample("printed.txt"));
  REQUIRE(lines.size() == 9);
  CHECK(lines[0] == R"({"epoch":0.25,"grad_norm":5.656,"learning_rate":4.583e-05,"loss":2.346})");
  CHECK(printed(patterns, "  5%|#  | 5/100\r{'loss': 3.5, 'epoch': nan}\n", 4096) ==
        Lines{R"({"epoch":null,"loss":3.5})"});
  for (const char* odd : {"{'", "{'}", "{'a'}", "{'a': 'b'}", "{'': 1}", "{}", "{'a: 1}",
                          "{'loss': '", "{'x': [1, 2]}", "{'x': '}", "{','}", "x {'loss': 1}"}) {
    CAPTURE(odd);
    auto fresh = patterns_of({"hf"});
    CHECK(printed(fresh, std::string(odd) + "\n").empty());
  }
}

TEST_CASE("a line without end and an expensive pattern hold nobody up, and that is said once") {
  auto patterns = patterns_of({"(a*)*(?P<loss>b)$", "((a?){30}){10}(?P<x>c)"});
  const std::string line(1 << 20, 'a');
  const auto began = std::chrono::steady_clock::now();
  std::int64_t offset = 0;
  const long before = pages_held();
  for (int i = 0; i < 20; ++i, offset += 1 << 20) patterns.take({0}, offset, line);
  CHECK(pages_held() < before + 2000);
  std::string many;
  while (many.size() < 4u << 20) many += std::string(4000, 'a') + "\n";
  for (int i = 0; i < 5; ++i, offset += static_cast<std::int64_t>(many.size())) {
    patterns.take({0}, offset, many);
  }
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{10});
  const MetricLook news = patterns.take();
  CHECK(news.lines.empty());
  CHECK(news.notes.size() == 1);
}
