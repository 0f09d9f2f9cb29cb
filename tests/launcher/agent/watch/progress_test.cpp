// Steps that a rank's program told others.
#include <fstream>

#include "launcher/agent/watch/progress.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;
using std::chrono::seconds;

namespace {

struct OneRank {
  OneRank() { watch.add({0}, root.below("/heartbeat"), root.below("/metrics")); }
  bool counts(std::int64_t step, seconds later, bool is_over = false) {
    watch.read_off({0}, step, now += later, is_over);
    return watch.step_of({0}).has_value();
  }
  FakeRoot root;
  ProgressWatch watch;
  ProgressWatch::Moment now{};
};

}  // namespace

TEST_CASE("a step that rises is a sign of life once it has risen five times within a minute each") {
  OneRank rank;
  for (int step = 1; step <= 5; ++step) CHECK_FALSE(rank.counts(step, seconds{20}));
  CHECK_FALSE(rank.counts(5, seconds{20}));
  CHECK(rank.counts(6, seconds{20}));
  CHECK(rank.counts(7, seconds{600}));  // from now on its absence says something
  CHECK(rank.watch.step_of({0}) == 7);
}

TEST_CASE("a step that rises too seldom is none, but the last one of a rank that is over") {
  OneRank rank;
  for (int step = 1; step <= 20; ++step) CHECK_FALSE(rank.counts(step, seconds{61}));
  CHECK(rank.counts(20, seconds{1}, true));
  CHECK(rank.watch.step_of({0}) == 20);
  rank.watch.read_off({7}, 3, rank.now, true);  // no such rank
}
