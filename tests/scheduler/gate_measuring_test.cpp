// Which gates measure a node: health.start, and health.failure after an attempt that failed there.
#include "scheduler/gate_measuring.h"

#include "tests/catch.h"

using namespace muster;

namespace {

const NodeId h01{"h01"}, h02{"h02"}, h03{"h03"};

// On h01 and h02.
PastAttempt ended(StopReason reason, int at_ms = 1000) {
  PastAttempt past;
  past.ended_at = from_ms(at_ms);
  past.cause.reason = reason;
  past.nodes = {h01, h02};
  return past;
}

Job a_job(HealthLevel start, const std::string& failure, std::vector<PastAttempt> past) {
  Job job;
  job.spec.muster.health_start = start;
  if (!failure.empty()) job.spec.muster.other["health.failure"] = failure;
  job.past = std::move(past);
  return job;
}

Job failed_once(const std::string& failure = "full", HealthLevel start = HealthLevel::quick) {
  return a_job(start, failure, {ended(StopReason::rank_failed)});
}

bool is_measured(const Job& job, const NodeId& node) {
  return gate_measuring(job, node).is_wanted;
}

}  // namespace

TEST_CASE("the gate measures where ranks ran in an attempt that failed, and nowhere else") {
  const Job job = failed_once();
  CHECK(is_measured(job, h01));
  CHECK(is_measured(job, h02));
  CHECK_FALSE(is_measured(job, h03));
  CHECK(gate_measuring(job, h02).since == from_ms(1000));
}

TEST_CASE("the first gate measures only where the job says so") {
  for (const char* failure : {"", "full", "quick", "off"}) {
    CHECK_FALSE(is_measured(a_job(HealthLevel::quick, failure, {}), h01));
    CHECK_FALSE(is_measured(a_job(HealthLevel::off, failure, {}), h01));
    const Job full = a_job(HealthLevel::full, failure, {});
    CHECK(is_measured(full, h01));
    CHECK_FALSE(gate_measuring(full, h01).since);
  }
}

TEST_CASE("a job that looks less closely at failures, or has no gate, does not measure for them") {
  CHECK(is_measured(failed_once("full"), h01));
  CHECK_FALSE(is_measured(failed_once(""), h01));
  CHECK_FALSE(is_measured(failed_once("quick"), h01));
  CHECK_FALSE(is_measured(failed_once("off"), h01));
  CHECK_FALSE(is_measured(failed_once("full", HealthLevel::off), h01));
  CHECK(gate_measuring(failed_once("full", HealthLevel::full), h01).since);
  // Figures of before the failure are believed then.
  const Job job = failed_once("quick", HealthLevel::full);
  CHECK(is_measured(job, h01));
  CHECK_FALSE(gate_measuring(job, h01).since);
}

TEST_CASE("the latest failure on a node counts, whatever came between") {
  const Job job = a_job(HealthLevel::quick, "full",
                        {ended(StopReason::rank_failed, 1000), ended(StopReason::hung, 2000),
                         ended(StopReason::preempted, 3000)});
  CHECK(gate_measuring(job, h01).since == from_ms(2000));
  CHECK_FALSE(is_measured(job, h03));
}

TEST_CASE("who was asked to go did not fail: the next attempt's gate does not measure for it") {
  const auto is_measured_after = [](StopReason reason) {
    return is_measured(a_job(HealthLevel::quick, "full", {ended(reason)}), h01);
  };
  for (const StopReason reason :
       {StopReason::rank_failed, StopReason::node_lost, StopReason::hung, StopReason::faulty}) {
    INFO(static_cast<int>(reason));
    CHECK(is_measured_after(reason));
  }
  for (const StopReason reason :
       {StopReason::canceled, StopReason::time_limit, StopReason::start_failed, StopReason::drained,
        StopReason::finished, StopReason::preempted}) {
    INFO(static_cast<int>(reason));
    CHECK_FALSE(is_measured_after(reason));
  }
  // A rule says of the rank that something outside ended it.
  Job terminated = failed_once();
  terminated.past.back().cause.failure_class = FailureClass::preempted;
  CHECK_FALSE(is_measured(terminated, h01));
}

TEST_CASE("a node that failed and left an elastic attempt is measured when it is taken again") {
  Job job = a_job(HealthLevel::quick, "full", {});
  Attempt attempt;
  attempt.launched = true;
  for (const NodeId& id : {h01, h02, h03}) {
    AttemptNode node;
    node.id = id;
    attempt.nodes.push_back(node);
  }
  AttemptNode& left = attempt.nodes[1];
  left.leaves.emplace();
  left.leaves->reason = StopReason::rank_failed;
  left.left_at = from_ms(5000);
  left.released = true;
  const auto gate = [&] {
    job.phase = Active{attempt};
    return gate_measuring(job, h02);
  };
  CHECK(gate().is_wanted);
  CHECK(gate().since == from_ms(5000));
  CHECK_FALSE(is_measured(job, h01));
  left.leaves->reason = StopReason::preempted;
  CHECK_FALSE(gate().is_wanted);
  left.leaves->reason = StopReason::rank_failed;
  left.taken_late = true;  // and nothing was started there
  CHECK_FALSE(gate().is_wanted);
  left.taken_late = false;
  attempt.launched = false;
  CHECK_FALSE(gate().is_wanted);
}
