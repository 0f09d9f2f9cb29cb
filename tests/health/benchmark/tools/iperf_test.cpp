#include "health/benchmark/tools/tools.h"

#include "tests/health/benchmark/tools/tool_output.h"

using namespace muster;

namespace {

// Of iperf 3.12, on the loopback; its intervals are left out.
const std::string forward = "iperf-3.12-forward.json";
const std::string reverse = "iperf-3.12-reverse.json";

}  // namespace

TEST_CASE("one end serves a test, the other connects and may let the server send") {
  using Words = std::vector<std::string>;
  IperfCall call;
  call.port = 7001;
  CHECK(iperf_argv(call) == Words{"iperf3", "--json", "--port", "7001", "--server", "--one-off"});
  call.address = "10.0.0.1";
  CHECK(iperf_argv(call).back() == "10.0.0.1");
  call.server = "n2";
  call.is_reverse = true;
  CHECK(iperf_argv(call) == Words{"iperf3", "--json", "--port", "7001", "--client", "n2",
                                  "--parallel", "8", "--time", "4", "--connect-timeout", "5000",
                                  "--reverse"});
}

TEST_CASE("what the receiver got is the rate, and the shortest round trip the latency") {
  const auto there = read_iperf(tool_output(forward));
  REQUIRE(there);
  CHECK(there->gbps == Approx(10.468382));
  CHECK(there->round_trip_us == 127);
  const auto back = read_iperf(tool_output(reverse));
  REQUIRE(back);
  CHECK(back->gbps == Approx(8.130374));
  CHECK(back->round_trip_us == 0);  // of the other end's kernel: not told
}

TEST_CASE("a report with an error, or of no test, is no figure") {
  // As 3.12 says it where nobody listens, with code 0.
  const auto refused = read_iperf(R"({"start": {"connected": []}, "intervals": [], "end": {}, )"
                                  R"("error": "unable to connect to server: Connection refused"})");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "iperf3: unable to connect to server: Connection refused");
  for (const std::string bad :
       {"", "{", "{}", "[]", "1", R"({"end": {}})", R"({"error": 1})",
        R"({"end": {"sum_received": {"bits_per_second": 0}, "streams": []}})",
        R"({"end": {"sum_received": {"bits_per_second": "x"}, "streams": []}})",
        R"({"end": {"sum_received": {"bits_per_second": 1e9}}})"}) {
    INFO(bad);
    CHECK_FALSE(read_iperf(bad));
  }
}

TEST_CASE("no report makes the reader of iperf3 fail") {
  std::mt19937 random(20261127);
  const std::string whole = tool_output(forward);
  for (int round = 0; round < 2000; ++round) {
    const auto figures = read_iperf(garbled(whole, random));
    if (figures) REQUIRE(figures->gbps > 0);
  }
}
