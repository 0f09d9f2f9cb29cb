// The listener of version 2 is hidden without this.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "tests/skip.h"

#include <iostream>

#include "tests/catch.h"

namespace {

// Of the test that runs; empty: it was not skipped.
std::string skipped_because;

// Prints what ctest looks for (SKIP_REGULAR_EXPRESSION) only after a test of which no check failed:
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
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (!skipped_because.empty() && stats.totals.assertions.failed == 0) {
      std::cout << "test skipped: " << skipped_because << std::endl;
    }
    skipped_because.clear();
  }
};
CATCH_REGISTER_LISTENER(SkipListener)

}  // namespace

void skip_test(const std::string& why) {
  skipped_because = why;
}
