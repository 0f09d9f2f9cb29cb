// What is said of measuring gates before a job runs.
#include "cli/job/plan.h"

#include "tests/catch.h"

using namespace muster;

namespace {

ComputeTarget with_floor() {
  ComputeTarget target;
  target.name = "lab";
  target.health.emplace();
  target.health->floors["cpu_gemm_gflops"] = 100;
  return target;
}

JobFile a_job(HealthLevel start, const std::string& failure = "") {
  JobFile job;
  job.spec.muster.health_start = start;
  if (!failure.empty()) job.spec.muster.other["health.failure"] = failure;
  return job;
}

std::string said_of_gate(const JobFile& job, const ComputeTarget& target) {
  std::string text;
  for (const Finding& one : gate_findings(job, target)) {
    text += std::string(severity_name(one.severity)) + ": " + one.message;
  }
  return text;
}

std::string after_failure(HealthLevel start, const std::string& failure,
                          const ComputeTarget& target) {
  return measured_after_failure(a_job(start, failure).spec, target);
}

}  // namespace

TEST_CASE("full that a job asks for and that adds nothing is a warning which says why") {
  ComputeTarget bare;
  bare.name = "lab";
  const std::string none = "full adds nothing to quick: the health profile of lab has no minimum";
  CHECK_THAT(said_of_gate(a_job(HealthLevel::full), bare),
             ContainsSubstring("warning: muster.health.start: " + none));
  CHECK_THAT(said_of_gate(a_job(HealthLevel::quick, "full"), bare),
             ContainsSubstring("warning: muster.health.failure: " + none));
  CHECK(said_of_gate(a_job(HealthLevel::off, "full"), with_floor()) ==
        "warning: muster.health.failure: full adds nothing to quick: the gate measures, and "
        "muster.health.start is off");
  for (const char* failure : {"", "quick", "off"}) {
    CHECK(said_of_gate(a_job(HealthLevel::quick, failure), bare).empty());
    CHECK(said_of_gate(a_job(HealthLevel::off, failure), bare).empty());
  }
  CHECK(said_of_gate(a_job(HealthLevel::quick, "full"), with_floor()).empty());
}

TEST_CASE("how long a start waits for a gate that measures is a note") {
  CHECK(said_of_gate(a_job(HealthLevel::full), with_floor()) ==
        "note: muster.health.start: before ranks start each node is measured, unless it was in "
        "the last 12 h: cpu: about 5.0s, 30s at most");
}

TEST_CASE("what comes after a failure is said where the gate measures then") {
  const std::string text =
      "after an attempt that failed its nodes are measured before the next: cpu: about 5.0s, 30s "
      "at most";
  for (const HealthLevel start : {HealthLevel::quick, HealthLevel::full}) {
    CHECK(after_failure(start, "full", with_floor()) == text);
    CHECK(after_failure(start, "quick", with_floor()).empty());
    CHECK(after_failure(start, "", with_floor()).empty());
    CHECK(after_failure(start, "full", {}).empty());
  }
  CHECK(after_failure(HealthLevel::off, "full", with_floor()).empty());
}
