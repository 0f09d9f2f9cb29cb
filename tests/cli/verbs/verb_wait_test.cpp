// What `wait` returns of jobs that have ended, end, or do not.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

JobRow a_job(const std::string& name) {
  JobRow row;
  row.name = name;
  row.compute = "lab";
  row.user = "ada";
  row.state = "Running";
  row.submitted_at = from_ms(1000);
  row.tags = "{}";
  return row;
}

JobRow an_ended_job(const std::string& name, int exit_code) {
  JobRow row = a_job(name);
  row.state = exit_code == 0 ? "Completed" : "Failed";
  row.reason = exit_code == 0 ? "every rank ended with 0" : "rank 0 ended with an error";
  row.ended_at = from_ms(9000);
  row.exit_code = exit_code;
  return row;
}

void write_rows(const CommandSite& site, const std::vector<JobRow>& rows) {
  const auto store = Store::open(site.home().root, Store::Mode::read_write);
  check(store && (*store)->append({}, rows), "the rows of a test can be written");
}

}  // namespace

TEST_CASE("wait returns the first exit code that is not 0, in the order given") {
  const CommandSite site;
  write_rows(site, {an_ended_job("good", 0), an_ended_job("seven", 7), an_ended_job("three", 3)});
  CHECK(site.type("wait good").code == 0);
  CHECK(site.type("wait good good").code == 0);
  const SaidByVerb said = site.type("wait good seven three");
  CHECK(said.code == 7);
  CHECK(said.out == "");
  CHECK_THAT(said.err, ContainsSubstring("job seven Failed: rank 0 ended with an error"));
  CHECK(site.type("wait three sev").code == 3);
  CHECK(site.type("wait good nobody").code == 1);
  CHECK(site.type("wait").code == 2);
}

TEST_CASE("to a wait, a job whose exit code was not kept has not succeeded") {
  const CommandSite site;
  JobRow unknown = an_ended_job("unknown", 7);
  unknown.exit_code.reset();
  write_rows(site, {an_ended_job("good", 0), unknown, an_ended_job("three", 3)});
  CHECK(site.type("wait good unknown").code == 99);
  CHECK(site.type("wait unknown three").code == 99);
  CHECK(site.type("wait three unknown").code == 3);
}

TEST_CASE("a wait that is over before a job returns 124, whatever other jobs ended with") {
  const CommandSite site;
  write_rows(site, {a_job("live"), an_ended_job("seven", 7)});
  const SaidByVerb said = site.type("wait seven live --timeout 0 -o json");
  CHECK(said.code == 124);
  CHECK_THAT(said.err, ContainsSubstring("not ended within 0s: live"));
  REQUIRE(said.document().size() == 2);
  CHECK(said.document()[0]["exit_code"] == 7);
  CHECK(said.document()[1]["status"] == "Running");
  CHECK(site.type("wait live --timeout 150ms").code == 124);
}

TEST_CASE(
    "a wait asks nothing of a controller that lives, and is over in time when it is stopped") {
  const CommandSite site;
  write_rows(site, {a_job("live"), an_ended_job("good", 0)});
  const auto lock = take_lock_file(site.home().lock());
  REQUIRE(lock);
  REQUIRE(*lock);
  const SaidByVerb said = site.type("wait live good live --timeout 150ms -o json");
  CHECK(said.code == 124);
  CHECK_THAT(said.err, !ContainsSubstring("controller"));
  CHECK(said.document().size() == 2);
}

TEST_CASE("wait returns when the last job ends") {
  const CommandSite site;
  write_rows(site, {a_job("live"), an_ended_job("good", 0)});
  std::thread controller([&] {
    // What is said of a job that nobody serves: the wait has begun.
    while (site.text_of("said-err").find("live") == std::string::npos) std::this_thread::yield();
    write_rows(site, {an_ended_job("live", 5)});
  });
  const SaidByVerb said = site.type("wait good live --timeout 60s");
  controller.join();
  CHECK(said.code == 5);
  CHECK_THAT(said.err, ContainsSubstring("job live Failed"));
}
