// What a trace holds, and how it stands in a file.
#include <nlohmann/json.hpp>

#include "runtime/report/trace.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("a trace keeps what fits its limit, and counts what does not") {
  Trace trace(2);
  for (int i = 0; i < 5; ++i) trace.add({i, i + 1, SpanKind::forward, 0, 0});
  CHECK(trace.entries().size() == 2);
  CHECK(trace.dropped() == 3);
  { const TraceSpan none(&trace, SpanKind::step); }  // it is off
  CHECK(trace.dropped() == 3);
}

TEST_CASE("spans of ranks with other clocks stand where they were on the clock of rank 0") {
  const RankTrace ranks[] = {
      {"a", {{5'000'000, 5'001'000, SpanKind::forward, 0, 0}}, 0, 0, 0},
      {"b", {{9'000'500, 9'002'500, SpanKind::backward, 0, 0}}, 0, 4'000'000, 10}};
  const auto trace = nlohmann::json::parse(format_trace(ranks));
  std::map<int, nlohmann::json> spans;  // by rank
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") spans[event.at("pid").get<int>()] = event;
  }
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("name") == "forward");
  CHECK(spans[0].at("ts").get<double>() == Approx(0).margin(1e-9));
  CHECK(spans[0].at("dur").get<double>() == Approx(1));  // microseconds
  CHECK(spans[1].at("name") == "backward");
  CHECK(spans[1].at("ts").get<double>() == Approx(0.5));
  CHECK(spans[1].at("dur").get<double>() == Approx(2));
}
