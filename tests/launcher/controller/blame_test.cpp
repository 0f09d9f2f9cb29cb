#include "tests/catch.h"
#include "tests/launcher/controller/blame_world.h"

namespace muster::test {
namespace {

TEST_CASE("whatever fails, however the clocks differ, nobody is named wrongly") {
  const auto fault = static_cast<Fault>(GENERATE(range(0, fault_count)));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Verdict verdict = try_fault(fault, seed).muster;
    INFO(fault_name(fault) << ", seed " << seed << ": " << verdict.sentence);
    CHECK((verdict.right || !verdict.names));
  }
}

TEST_CASE("nobody is named when somebody hangs and the others' watchdogs end them") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK_FALSE(try_fault(Fault::hang, seed).muster.names);
  }
}

TEST_CASE("most who fail are named") {
  int right = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    right += try_fault(Fault::segmentation_fault, seed).muster.right ? 1 : 0;
  }
  CHECK(right >= 40);
}

}  // namespace
}  // namespace muster::test
