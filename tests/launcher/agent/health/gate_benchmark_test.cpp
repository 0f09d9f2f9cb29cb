// What `muster health active -o json` wrote, read with distrust.
#include "launcher/agent/health/gate_benchmark.h"

#include <string>

#include "health/benchmark/samples.h"
#include "tests/catch.h"

using namespace muster;

namespace {

const std::string one_figure =
    R"({"metric": "tcp_gbps", "device": "", "value": 5, "unit": "Gb/s", "error": null})";

std::string list_of(std::size_t count) {
  std::string text = R"({"figures": [)";
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + one_figure;
  return text + "]}";
}

}  // namespace

TEST_CASE("figures are read with their numbers, or with why they have none") {
  CHECK(read_measured(list_of(0))->empty());
  const auto samples = read_measured(
      R"({"host": "h", "figures": [{"metric": "tcp_gbps", "device": "eth0", "value": 5.5},)"
      R"( {"metric": "cpu_gemm_gflops", "device": null, "value": null, "error": "killed"}]})");
  REQUIRE(samples);
  REQUIRE(samples->size() == 2);
  CHECK(samples->at(0).device == "eth0");
  CHECK(samples->at(0).value == 5.5);
  CHECK(samples->at(0).error.empty());
  CHECK(samples->at(1).device.empty());
  CHECK_FALSE(samples->at(1).value);
  CHECK(samples->at(1).error == "killed");
}

TEST_CASE("a text that is cut off, or no such text, has no figures") {
  const std::string whole = list_of(2);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(read_measured(whole.substr(0, size)));
  }
  for (const char* text : {"", "[]", "7", "null", "{}", "\xff\xfe", "{\"figures\": \"\xff\"}",
                           R"({"figures": 7})", R"({"figures": null})", R"({"figures": {}})"}) {
    INFO(text);
    CHECK_FALSE(read_measured(text));
  }
}

TEST_CASE("one figure that makes no sense spoils all") {
  for (const char* figure :
       {"7", "null", "{}", R"({"metric": "speed", "value": 1})", R"({"metric": 7, "value": 1})",
        R"({"metric": "tcp_gbps"})", R"({"metric": "tcp_gbps", "value": -1})",
        R"({"metric": "tcp_gbps", "value": "fast"})", R"({"metric": "tcp_gbps", "value": true})",
        R"({"metric": "tcp_gbps", "value": 1e999})",
        R"({"metric": "tcp_gbps", "value": 1, "device": 7})",
        R"({"metric": "tcp_gbps", "value": null, "error": ["x"]})"}) {
    INFO(figure);
    CHECK_FALSE(read_measured("{\"figures\": [" + one_figure + ", " + figure + "]}"));
  }
}

TEST_CASE("no node has that many figures") {
  CHECK(read_measured(list_of(probe_samples_max)));
  CHECK_FALSE(read_measured(list_of(probe_samples_max + 1)));
}
