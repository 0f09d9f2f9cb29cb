#include "health/model/majority.h"

#include <cmath>
#include <limits>

#include "health/learn/profile.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("a median is of the finite values") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_FALSE(median_of({}));
  CHECK_FALSE(median_of({std::nan(""), inf}));
  CHECK(median_of({3}) == 3);
  CHECK(median_of({9, 1, 5}) == 5);
  CHECK(median_of({4, 1, std::nan(""), 2, 9}) == 3);
  CHECK(std::isfinite(
      *median_of({std::numeric_limits<double>::max(), std::numeric_limits<double>::max()})));
}

TEST_CASE("a node that differs from the others fails, and says in what") {
  const Facts usual{{"kernel", "5.15"}, {"nccl", "2.18"}};
  std::map<std::string, Facts> by_node{
      {"n1", usual}, {"n2", usual}, {"n3", {{"kernel", "6.1"}, {"nccl", "2.18"}}}, {"n4", {}}};
  const auto findings = judge_majority("host.versions", by_node);
  CHECK(findings.at("n1").status == CheckStatus::pass);
  CHECK(findings.at("n1").value == "kernel 5.15, nccl 2.18");
  CHECK(findings.at("n3").status == CheckStatus::fail);
  CHECK(findings.at("n3").value == "kernel 6.1");
  CHECK(findings.at("n3").expected == "kernel 5.15");
  CHECK_FALSE(findings.contains("n4"));
}

TEST_CASE("without a majority nobody is to blame") {
  const auto findings =
      judge_majority("host.versions", {{"n1", {{"kernel", "5.15"}}}, {"n2", {{"kernel", "6.1"}}}});
  CHECK(findings.at("n1").status == CheckStatus::unknown);
  CHECK(findings.at("n2").status == CheckStatus::unknown);
  CHECK(judge_majority("host.versions", {}).empty());
}
