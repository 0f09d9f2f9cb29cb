#include "tests/scheduler/bench.h"

#include "scheduler/explain/explain.h"
#include "scheduler/restart/rule_book.h"
#include "scheduler/state/lookup.h"
#include "tests/sim/model/dump.h"

namespace muster::test {

namespace {

constexpr int decisions_limit = 10'000;  // more in one go is a loop

NodeId node_id(int number) {
  return NodeId{node_name(number)};
}

}  // namespace

void Bench::write(const Record& record) {
  audit_.see(state, record);
  journal.push_back(record);
  apply(state, record);
  REQUIRE(muster::violations(state).empty());
}

void Bench::observe(const Observation& what) {
  write({now, what});
  settle();
}

void Bench::relive(const Record& record) {
  now = record.at;
  write(record);
}

void Bench::settle() {
  int made = 0;
  for (auto decisions = decide(state, now); !decisions.empty(); decisions = decide(state, now)) {
    for (Decision& decision : decisions) write({now, std::move(decision)});
    made += static_cast<int>(decisions.size());
    REQUIRE(made < decisions_limit);
  }
}

void Bench::submit(const JobSubmitted& job) {
  observe(job);
  const Job* known = find_job(state, job.job);
  if (known && known->asked && !active_attempt(*known)) pass(first_word);
}

void Bench::pass(Milliseconds duration) {
  const Time end = now + duration;
  for (auto wake = next_wake(state, now); wake && *wake <= end; wake = next_wake(state, now)) {
    REQUIRE(*wake > now);
    now = *wake;
    settle();
  }
  now = end;
  settle();
}

void Bench::link(int node, int agent, int boot) {
  const std::string name = node_name(node);
  LinkUp up{NodeId{name}, "boot" + std::to_string(boot), "agent" + std::to_string(agent), name,
            "10.0.0." + std::to_string(node)};
  up.gpus = gpus[node];
  observe(std::move(up));
}

void Bench::link_all(int count) {
  for (int i = 1; i <= count; ++i) link(i);
}

void Bench::unlink(int node, LinkFailureKind kind) {
  observe(LinkDown{node_id(node), {kind, "no answer"}});
}

void Bench::drain(int node, bool drained, std::optional<Milliseconds> move_after) {
  observe(NodeDrainSet{node_id(node), drained, drained ? "new fan" : "", move_after});
}

void Bench::notice(int node, std::optional<Milliseconds> leaves_in) {
  observe(NodeNotice{node_id(node), leaves_in, "/run/leave", false, "boot1", "agent1"});
}

void Bench::report_faults(int node, std::vector<NodeFault> faults, bool settled) {
  const Node* known = find_node(state, node_id(node));
  observe(NodeFaultsSeen{node_id(node), std::move(faults), settled,
                         known ? known->owner : std::nullopt});
}

void Bench::fail_check(int node, const std::string& name) {
  observe(NodeChecked{
      JobId{name}, attempt(name).id, node_id(node), {{"gpu_count", "found 7 GPUs, wanted 8"}}, {}});
}

ClockInterval around(Time time, Milliseconds uncertainty) {
  const std::int64_t middle_us = to_ms(time) * 1000;
  const std::int64_t uncertainty_us = uncertainty.count() * 1000;
  return {middle_us - uncertainty_us, middle_us + uncertainty_us, "boot"};
}

Observation answer_to(const State& state, const NodeWork& work,
                      const std::optional<CheckpointRef>& on_disk) {
  const auto& [job_id, attempt_id, node, index, what] = work;
  if (std::holds_alternative<CheckWork>(what)) {
    return NodeChecked{job_id, attempt_id, node, {}, on_disk};
  }
  if (std::holds_alternative<StageWork>(what)) return NodeStaged{job_id, attempt_id, node, ""};
  if (const auto* reserve = std::get_if<ReserveWork>(&what)) {
    std::vector<int> ports;
    for (int i = 0; i < reserve->count; ++i) ports.push_back(20000 + i);
    return PortsReserved{job_id, attempt_id, node, ports, ""};
  }
  if (std::holds_alternative<StartWork>(what)) {
    return NodeStarted{job_id, attempt_id, node, "", "/jobs/" + job_id.value};
  }
  if (std::holds_alternative<StopWork>(what)) {
    return NodeClean{job_id, attempt_id, node, on_disk, {}};
  }
  if (std::holds_alternative<MembersWork>(what)) {
    const Attempt* attempt = find_attempt(state, job_id, attempt_id);
    return MembersTold{job_id, attempt_id, node, attempt ? attempt->members.epoch : 0, ""};
  }
  return OutputsCollected{job_id, attempt_id, node, ""};
}

void Bench::obey(const NodeWork& work) {
  Observation answer = answer_to(state, work, on_disk[work.node]);
  if (auto* checked = std::get_if<NodeChecked>(&answer)) {
    checked->newest_certified = certified[work.node];
    checked->asked_checkpoint = asked[work.node];
  }
  if (auto* clean = std::get_if<NodeClean>(&answer)) {
    clean->newest_certified = certified[work.node];
  }
  observe(answer);
}

void Bench::obey() {
  for (auto works = pending_work(state); !works.empty(); works = pending_work(state)) {
    obey(works.front());
  }
}

void Bench::obey_after(Milliseconds duration) {
  pass(duration);
  obey();
}

void Bench::start(const JobSubmitted& job) {
  submit(job);
  link_all(static_cast<int>(job.target.nodes.size()));
  obey();
  REQUIRE(is_in<Running>(job.job.value));
}

void Bench::finish(const std::string& name) {
  const auto ranks = static_cast<int>(attempt(name).ranks.size());
  for (int rank = 0; rank < ranks; ++rank) exit_rank(rank, {}, {}, name);
  obey();
}

void Bench::exit_rank(int rank, ExitStatus status, Milliseconds ago, const std::string& name,
                      const std::string& last_line) {
  const Attempt& active = attempt(name);
  const Rank& known = active.ranks.at(static_cast<std::size_t>(rank));
  RankExited exit;
  exit.job = JobId{name};
  exit.attempt = active.id;
  exit.node = node_of(active, known).id;
  exit.rank = RankId{rank};
  exit.status = status;
  exit.at_ms = to_ms(now - ago);
  exit.when = around(now - ago);
  if (!status.ok()) {
    exit.last_lines = {"Traceback", last_line};
    exit.rules = judge_exit(job(name).spec.muster, known_exit(exit));
  }
  observe(exit);
}

void Bench::exit_and_obey(int rank, ExitStatus status, Milliseconds ago, const std::string& name,
                          const std::string& last_line) {
  exit_rank(rank, status, ago, name, last_line);
  obey();
}

void Bench::fail_and_retry(int rank, ExitStatus status, const std::string& last_line) {
  exit_and_obey(rank, status, {}, "train", last_line);
  obey_after(Seconds{600});
}

void Bench::progress(std::int64_t step, std::optional<CheckpointRef> checkpoint) {
  if (checkpoint) {
    for (const AttemptNode& node : attempt().nodes) on_disk[node.id] = checkpoint;
  }
  observe(ProgressSeen{JobId{"train"}, attempt().id, step, checkpoint});
}

void Bench::cancel(const std::string& name) {
  observe(CancelRequested{JobId{name}, {}});
}

const Job& Bench::job(const std::string& name) const {
  const Job* found = find_job(state, JobId{name});
  REQUIRE(found);
  return *found;
}

const Node& Bench::node(int number) const {
  return state.nodes.at(node_id(number));
}

const Attempt& Bench::attempt(const std::string& name) const {
  const Attempt* active = active_attempt(job(name));
  REQUIRE(active);
  return *active;
}

bool Bench::is_live(const std::string& name) const {
  return find_job(state, JobId{name}) != nullptr;
}

int Bench::ended_with() const {
  REQUIRE(!is_live());
  return the<JobEnded>().exit_code;
}

std::string Bench::story() const {
  std::string text;
  for (const std::string& line : explain_text(journal)) text += line + "\n";
  return text;
}

State Bench::rebuilt() const {
  State again;
  for (const Record& record : journal) apply(again, record);
  CHECK(describe(again) == describe(state));
  return again;
}

std::vector<std::string> Bench::nodes(const std::string& name) const {
  std::vector<std::string> names;
  for (const AttemptNode& node : attempt(name).nodes) names.push_back(node.id.value);
  return names;
}

}  // namespace muster::test
