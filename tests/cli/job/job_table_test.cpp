#include "cli/job/table.h"

#include "tests/catch.h"

using namespace muster;

TEST_CASE("how long a job ran leaves out the pauses between its attempts") {
  JobSummary job;
  AttemptSummary first;
  first.placed = from_ms(0);
  first.started = from_ms(10'000);
  first.ended = from_ms(40'000);
  AttemptSummary never_started;
  never_started.placed = from_ms(60'000);
  never_started.ended = from_ms(90'000);
  AttemptSummary now_running;
  now_running.placed = from_ms(100'000);
  now_running.started = from_ms(110'000);
  job.attempts = {first, never_started, now_running};
  CHECK(running_time(job, from_ms(115'000)) == Milliseconds{35'000});
  job.ended = from_ms(112'000);
  CHECK(running_time(job, from_ms(500'000)) == Milliseconds{32'000});
  CHECK(running_time(JobSummary{}, from_ms(500'000)) == Milliseconds{0});
}
