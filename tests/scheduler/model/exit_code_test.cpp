#include "scheduler/model/exit_code.h"

#include "tests/catch.h"

namespace muster {
namespace {

TEST_CASE("a rank's own code is the job's, but for those that have a meaning of muster's") {
  for (const int own : {0, 1, 2, 89, 93, 100, 125, 127, 255}) {
    CHECK(exit_code_of_rank_code(own) == own);
  }
  for (const int taken : {90, 91, 92, 94, 95, 96, 97, 98, 99}) {
    CHECK(exit_code_of_rank_code(taken) == 1);
  }
  CHECK(exit_code_of_signal(9) == 137);
  CHECK(exit_code_of_signal(15) == 143);
}

TEST_CASE("every exit code has a meaning of its own") {
  CHECK(std::string(exit_code_meaning(ExitCode::gave_up)) == "retries exhausted, do not requeue");
  CHECK(std::string(exit_code_meaning(static_cast<ExitCode>(77))) == "unknown");
}

}  // namespace
}  // namespace muster
