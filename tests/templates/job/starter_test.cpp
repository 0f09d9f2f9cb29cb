#include "templates/job/starter.h"
#include "templates/job/job_file.h"
#include "templates/parse_file.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

TEST_CASE("every starter file parses without a finding and can run") {
  REQUIRE(starters().size() == 9);
  REQUIRE(starter_texts().size() == 9);
  for (const Starter& starter : starters()) {
    INFO(starter.name);
    const JobFile job = read_job(std::string(starter.text), in_project({{"/project/", ""}}));
    CHECK(printed(job.findings) == "");
    CHECK(printed(cannot_run_yet(job)) == "");
  }
}

}  // namespace
}  // namespace muster
