// The listener of version 2 is hidden without this.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "tests/skip.h"

#include <iostream>
#include <vector>

#include "tests/catch.h"

namespace {

// Of each test that was skipped.
std::vector<std::string> skipped_because;

// Prints what ctest looks for (SKIP_REGULAR_EXPRESSION) at the end, and only when no check failed:
// a match outweighs the exit code.
class SkipListener : public
#ifdef MUSTER_CATCH_V3
                     Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
#else
                     Catch::TestEventListenerBase {
 public:
  using Catch::TestEventListenerBase::TestEventListenerBase;
#endif
  void testRunEnded(const Catch::TestRunStats& stats) override {
    if (stats.totals.assertions.failed > 0) return;
    for (const std::string& why : skipped_because)
      std::cout << "test skipped: " << why << std::endl;
  }
};
CATCH_REGISTER_LISTENER(SkipListener)

}  // namespace

void skip_test(const std::string& why) {
  skipped_because.push_back(why);
}
