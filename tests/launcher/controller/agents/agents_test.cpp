#include <fstream>
#include <sstream>

#include "launcher/controller/agents/work_message.h"
#include "launcher/controller/store/job_leavings.h"
#include "scheduler/state/lookup.h"
#include "tests/launcher/controller/agents.h"

namespace muster {
namespace {

// A job whose attempt has n1, which is connected.
struct Placed : Agents {
  explicit Placed(const JobSubmitted& job = a_job("j", "a")) {
    know(Observation{job});
    know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
    wire = connect(address_of("n1", "a"));
  }
  std::shared_ptr<FakeWire> wire;
};

TEST_CASE("an answer from an address that was left meanwhile is not used") {
  Agents agents;
  agents.pool.want(address_of("n1", "old"), target_with(Milliseconds{60000}), "");
  agents.pool.want(address_of("n1", "new"), target_with(Milliseconds{60000}), "");
  REQUIRE(agents.transport.asked.size() == 2);
  const auto wire = agents.transport.answer(1);
  wire->say(Welcome{});
  CHECK(agents.transport.answer(0)->is_closed);
  CHECK(agents.pool.up({"n1"}) != nullptr);
  CHECK(agents.pool.find({"n1"})->address().host == "new");
  CHECK_FALSE(wire->is_closed);
}

TEST_CASE("an agent is greeted anew when the next job on its node has another lease") {
  Agents agents;
  const auto first = agents.connect(address_of("n1", "a"));
  CHECK(first->take<Hello>().at(0).lease == Milliseconds{60000});
  agents.pool.want(address_of("n1", "a"), target_with(Milliseconds{10000}), "");
  agents.io.poll();
  CHECK(first->is_closed);
  CHECK(agents.transport.answer(1)->take<Hello>().at(0).lease == Milliseconds{10000});
}

TEST_CASE("who waits for a node at another address is not forgotten with who waited before") {
  FakeTransport transport;
  boost::asio::io_context io;
  AsioTimers timers{io};
  AgentPool pool{timers, transport, AgentLaunch{}};
  struct Waits : NodeListener {
    explicit Waits(AgentPool& its_pool) : pool(its_pool) {}
    void node_failed(const NodeId& node, const LinkFailure& failure) override {
      failures.push_back(failure.message);
      if (failures.size() == 1) pool.await_no_more(node);  // the one that waited
    }
    AgentPool& pool;
    std::vector<std::string> failures;
  } waits{pool};
  pool.set_listeners({&waits});
  const auto& failures = waits.failures;
  const ComputeTarget target = target_with(Milliseconds{60000});
  pool.await(address_of("n1", "old"), target, "");
  pool.await(address_of("n1", "new"), target, "");
  REQUIRE(failures.size() == 1);
  REQUIRE(transport.asked.size() == 2);
  transport.asked[1].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(failures.size() == 2);
  io.run_for(std::chrono::milliseconds(300));  // the first pause is 50 ms
  CHECK(transport.asked.size() == 3);
}

TEST_CASE("an agent that is connected is told of the next job's health profile, once") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  CHECK_FALSE(wire->take<Hello>().at(0).health);
  ComputeTarget target = target_with(Milliseconds{60000});
  const auto told = [&] {
    agents.pool.want(address_of("n1", "a"), target, "");
    return wire->take<WatchHealth>();
  };
  CHECK(told().empty());
  target.health.emplace();
  target.health->name = "site";
  const auto first = told();
  REQUIRE(first.size() == 1);
  CHECK(first[0].health == target.health);
  CHECK(told().empty());
  target.health.reset();
  REQUIRE(told().size() == 1);
  CHECK_FALSE(wire->is_closed);
}

TEST_CASE("a health profile that changes while an agent is greeted is told after it") {
  Agents agents;
  ComputeTarget target = target_with(Milliseconds{60000});
  agents.pool.want(address_of("n1", "a"), target, "");
  const auto wire = agents.transport.answer(0);
  target.health.emplace();
  agents.pool.want(address_of("n1", "a"), target, "");
  CHECK(wire->take<WatchHealth>().empty());
  wire->say(Welcome{});
  CHECK(wire->take<WatchHealth>().size() == 1);
}

TEST_CASE("a node is judged by the profile of the job that has it, before the gate") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  LinkUp up;
  up.node = {"n1"};
  agents.know(Observation{up});
  JobSubmitted job = a_job("j", "a");
  job.target.lease = Milliseconds{60000};
  job.target.health.emplace();
  agents.know(Observation{job});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  agents.perform();
  std::vector<std::string> kinds;
  for (auto frame = wire->written.next(); frame && *frame; frame = wire->written.next()) {
    const auto message = decode<ToAgent>(std::move(**frame));
    REQUIRE(message);
    if (std::holds_alternative<WatchHealth>(message->message)) kinds.emplace_back("profile");
    if (std::holds_alternative<CheckNode>(message->message)) kinds.emplace_back("gate");
  }
  CHECK(kinds == std::vector<std::string>{"profile", "gate"});
}

TEST_CASE("a job's health settings go to its nodes with the gate and with the start") {
  Agents agents;
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.muster.health_skip = {"gpu.clocks"};
  submitted.spec.muster.health_only = {"gpu.count"};
  const auto gate_of = [&](const JobSubmitted& one) {
    agents.state = {};
    agents.know(Observation{one});
    agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
    WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home);
    return std::get<CheckNode>(messages.message({{"j"}, {0}, {"n1"}, 0, CheckWork{}}));
  };
  CheckNode gate = gate_of(submitted);
  CHECK(gate.with_health);
  CHECK_FALSE(gate.measures);
  CHECK(gate.health.failure == HealthLevel::quick);
  CHECK(gate.health.run);
  CHECK(gate.health.skip == std::vector<std::string>{"gpu.clocks"});
  CHECK(gate.skip == gate.health.skip);
  CHECK(gate.health.only == std::vector<std::string>{"gpu.count"});
  submitted.spec.muster.health_start = HealthLevel::full;
  CHECK(gate_of(submitted).measures);
  CHECK(gate_of(submitted).with_health);
  submitted.spec.muster.other = {{"health.failure", "off"}, {"health.run", "false"}};
  submitted.spec.muster.health_start = HealthLevel::off;
  gate = gate_of(submitted);
  CHECK_FALSE(gate.with_health);
  CHECK(gate.health.failure == HealthLevel::off);
  CHECK_FALSE(gate.health.run);
  WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home);
  const auto start = std::get<StartRanks>(messages.message({{"j"}, {0}, {"n1"}, 0, StartWork{}}));
  CHECK(start.health == gate.health);
}

TEST_CASE("a node is told of the services that run there as processes") {
  Agents agents;
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.services = {{"first", {"jupyter_lab", {}, "", ""}},
                             {"second", {"vs_code", {}, "1", ""}},
                             {"each", {"custom", 80, "all", ""}},
                             {"shell", {"ssh", {}, "all", ""}}};
  agents.know(Observation{submitted});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home);
  const auto start = std::get<StartRanks>(messages.message({{"j"}, {0}, {"n1"}, 0, StartWork{}}));
  REQUIRE(start.services.size() == 2);
  CHECK(start.services.at("each").port == 80);
  CHECK(start.services.contains("first"));
}

TEST_CASE("ranks of one attempt get one secret, from any controller of the state directory") {
  Agents agents;
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.environment_variables["MUSTER_RENDEZVOUS_SECRET"] = "the user's own";
  agents.know(Observation{submitted});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  const auto secret_with = [&](const std::string& key) {
    WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home, key);
    const auto start = std::get<StartRanks>(messages.message({{"j"}, {0}, {"n1"}, 0, StartWork{}}));
    for (const RankLaunch& rank : start.ranks) {
      CHECK_FALSE(rank.environment.contains("MUSTER_RENDEZVOUS_SECRET"));
    }
    return start.environment.at("MUSTER_RENDEZVOUS_SECRET");
  };
  const std::string secret = secret_with("key");
  CHECK(secret.size() == 64);
  CHECK(secret == secret_with("key"));
  CHECK(secret != secret_with("another"));
  const Job& job = agents.state.jobs.at({"j"});
  CHECK(secret == attempt_secret("key", job, {0}));
  CHECK(secret != attempt_secret("key", job, {1}));
  Job other = job;
  other.id = {"k"};
  CHECK(secret != attempt_secret("key", other, {0}));
  other = job;
  other.submitted_at = from_ms(777);  // a job of the same name, after this one was removed
  CHECK(secret != attempt_secret("key", other, {0}));
}

TEST_CASE("a ray cluster has the attempt's secret for its token, unless the job has its own") {
  const auto started = [](const Environment& own) {
    Agents agents;
    JobSubmitted submitted = a_job("j", "a");
    submitted.spec.distribution.type = DistributionType::ray;
    submitted.spec.environment_variables = own;
    agents.know(Observation{submitted});
    agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
    std::get<Active>(agents.state.jobs.at({"j"}).phase).attempt.nodes[0].ports =
        PortsReserved{{"j"}, {0}, {"n1"}, {4001, 4002}, ""};
    WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home, "key");
    return std::get<StartRanks>(messages.message({{"j"}, {0}, {"n1"}, 0, StartWork{}})).environment;
  };
  const Environment usual = started({});
  CHECK(usual.at("RAY_AUTH_MODE") == "token");
  CHECK(usual.at("RAY_AUTH_TOKEN") == usual.at("MUSTER_RENDEZVOUS_SECRET"));
  CHECK(started({{"RAY_AUTH_MODE", "disabled"}}).at("RAY_AUTH_MODE") == "disabled");
  CHECK_FALSE(started({{"RAY_ADDRESS", "h:1"}}).contains("RAY_AUTH_TOKEN"));
}

TEST_CASE("ranks are told which nodes their attempt has, how they are reached and their cores") {
  Agents agents;
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.distribution = {DistributionType::pytorch, 1, 0, 0};
  agents.know(Observation{submitted});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}, {"n2"}, {"n3"}}, ""}});
  agents.know(Observation{LinkUp{{"n1"}, "boot", "agent", "host-1", ""}});
  agents.know(Observation{LinkUp{{"n2"}, "boot", "agent", "host-2", "10.0.0.2"}});
  std::get<Active>(agents.state.jobs.at({"j"}).phase).attempt.nodes[0].ports =
      PortsReserved{{"j"}, {0}, {"n1"}, {4001}, ""};
  for (const auto& [node, cores] : {std::pair{"n1", 96}, std::pair{"n2", 48}}) {
    agents.pool.want(address_of(node, node), target_with(Milliseconds{60000}), "");
    Welcome welcome;
    welcome.cores = cores;
    agents.transport.answer(agents.transport.asked.size() - 1)->say(welcome);
  }
  WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home);
  const auto start = std::get<StartRanks>(messages.message({{"j"}, {0}, {"n2"}, 1, StartWork{}}));
  CHECK(start.environment.at("CCP_NODES") == "3 host-1 96 10.0.0.2 48 n3 1");
  CHECK(start.environment.at("MASTER_ADDR") == "host-1");
  CHECK(start.environment.at("MASTER_PORT") == "4001");
  CHECK(start.environment.at("NODE_RANK") == "1");
  CHECK(start.node_index == 1);
  REQUIRE(start.ranks.size() == 1);
  CHECK(start.ranks[0].rank == RankId{1});
}

TEST_CASE("a gate may rename what the job's own attempts left, and no check of a running one may") {
  Agents agents;
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.command = "python train.py";
  agents.know(Observation{submitted});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  Job& job = agents.state.jobs.at({"j"});
  const auto saves = [&] {
    WorkMessages messages(agents.state, from_ms(1), agents.pool, agents.home);
    return std::get<CheckNode>(messages.message({{"j"}, {0}, {"n1"}, 0, CheckWork{}})).saves;
  };
  CHECK_FALSE(saves().quarantine_since);  // nothing ran yet
  CHECK(saves().format == "auto");
  CHECK(saves().world == 1);
  job.first_launch = from_ms(1000);
  job.submitted_at = from_ms(2000);  // it was resumed
  CHECK(saves().quarantine_since == 1000);
  CHECK(saves().quarantine_until == 2000);
  job.past.emplace_back();
  job.past.back().ended_at = from_ms(3000);
  CHECK(saves().quarantine_until == 3000);
  job.spec.muster.checkpoint_quarantine = false;
  CHECK_FALSE(saves().quarantine_since);
  job.spec.muster.checkpoint_quarantine = true;
  find_attempt(agents.state, {"j"}, {0})->launched = true;
  CHECK_FALSE(saves().quarantine_since);  // a node that joins
  job.spec.command = "muster-train --steps 3";
  CHECK(saves().format == "muster");
}

TEST_CASE("after a failure the gate measures, and believes no figures from before it") {
  Agents agents;
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.muster.other["health.failure"] = "full";
  agents.know(Observation{submitted});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  Job& job = agents.state.jobs.at({"j"});
  const auto gate_at = [&](std::int64_t ms) {
    WorkMessages messages(agents.state, from_ms(ms), agents.pool, agents.home);
    return std::get<CheckNode>(messages.message({{"j"}, {0}, {"n1"}, 0, CheckWork{}}));
  };
  CHECK_FALSE(gate_at(61'000).measures);
  job.past.emplace_back();
  job.past.back().ended_at = from_ms(1000);
  job.past.back().nodes = {{"n2"}, {"n1"}};
  job.past.back().ran = {{{"n2"}, std::nullopt, from_ms(1000)}};
  CHECK_FALSE(gate_at(61'000).measures);
  job.past.back().ran.push_back({{"n1"}, std::nullopt, from_ms(1000)});
  CHECK(gate_at(61'000).measures);
  CHECK(gate_at(61'000).failed_ago == Milliseconds{60'000});
  CHECK(gate_at(500).failed_ago == Milliseconds{0});  // the clock was set back
}

TEST_CASE("a gate that was to measure is not passed by an agent that does not know how") {
  JobSubmitted submitted = a_job("j", "a");
  submitted.spec.muster.health_start = HealthLevel::full;
  submitted.target.health.emplace();
  submitted.target.health->floors["cpu_gemm_gflops"] = 100;
  submitted.target.health->required = {"perf.cpu"};
  const auto failures_told_by = [](const JobSubmitted& job, bool measures) {
    Agents agents;
    agents.know(Observation{job});
    agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
    agents.pool.want(address_of("n1", "a"), target_with(Milliseconds{60000}), "");
    const auto wire = agents.transport.answer(0);
    Welcome welcome;
    welcome.measures = measures;
    wire->say(welcome);
    wire->say(CheckDone{{"j"}, {0}, {}, {}});
    REQUIRE(agents.observed.size() == 1);
    return std::get<NodeChecked>(agents.observed[0]).failures;
  };
  const auto failures = failures_told_by(submitted, false);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].check == "perf.cpu");
  CHECK(failures[0].message.find("outdated") != std::string::npos);
  CHECK(failures_told_by(submitted, true).empty());
  submitted.target.health->required.clear();
  CHECK(failures_told_by(submitted, false).empty());
  submitted.target.health->required = {"perf.cpu"};
  submitted.spec.muster.health_skip = {"perf.cpu"};
  CHECK(failures_told_by(submitted, false).empty());
}

TEST_CASE("a lease is renewed once the journal knows the agent, with the agent's own time") {
  Agents agents;
  agents.pool.want(address_of("n1", "a"), target_with(Milliseconds{60000}), "");
  const auto wire = agents.transport.answer(0);
  Welcome welcome;
  welcome.boot_ms = 5;
  wire->say(welcome);
  CHECK_FALSE(wire->take<Ping>().at(0).heard_ms);
  agents.pool.up({"n1"})->renew_lease();
  CHECK(wire->take<Ping>().at(0).heard_ms == 5);
  wire->say(Pong{9});
  agents.pool.up({"n1"})->renew_lease();
  CHECK(wire->take<Ping>().at(0).heard_ms == 9);
}

TEST_CASE("of two jobs that give a node different addresses the owner's counts") {
  Agents agents;
  agents.know(Observation{a_job("first", "a")});
  agents.know(Observation{a_job("second", "b")});
  agents.know(Decision{AttemptPlaced{{"second"}, {0}, {{"n1"}}, ""}});
  for (int turn = 0; turn < 3; ++turn) agents.perform();
  REQUIRE(agents.transport.asked.size() == 1);
  CHECK(agents.transport.asked[0].address.host == "b");
}

TEST_CASE("a second Welcome on one connection is ignored") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  Welcome other;
  other.agent_id = "other";
  wire->say(other);
  CHECK(agents.pool.find({"n1"})->welcome().agent_id.empty());
}

TEST_CASE("output is taken from the node of the rank and from no other, under no other name") {
  Placed agents;
  const auto& owner = agents.wire;
  const auto stranger = agents.connect(address_of("n2", "b"));
  stranger->say(output_of("j", 0), "forged");
  owner->say(output_of("j", 7), "no such rank");
  owner->say(output_of("../../escaped", 0), "forged");
  CHECK(owner->take<OutputAck>().empty());
  CHECK_FALSE(std::filesystem::exists(agents.home.root / "jobs"));
  owner->say(output_of("j", 0), "true");
  CHECK(owner->take<OutputAck>().size() == 1);
  std::ostringstream log;
  log << std::ifstream(agents.home.rank_log({"j"}, {0}, {0})).rdbuf();
  CHECK(log.str() == "true");
}

TEST_CASE("output of an attempt that is over is taken while the kernel holds its processes") {
  Placed agents;
  const auto& wire = agents.wire;
  agents.know(Decision{StagingBegun{{"j"}, {0}}});
  agents.know(Decision{LaunchBegun{{"j"}, {0}, {}, "", false}});
  agents.know(Decision{StopBegun{{"j"}, {0}, StopReason::canceled, "", Milliseconds{0}, {}}});
  agents.know(Observation{NodeClean{{"j"}, {0}, {"n1"}, {}, {"python (pid 7)"}}});
  agents.know(Decision{AttemptEnded{{"j"}, {0}, {}, {}}});
  REQUIRE(agents.state.nodes.at({"n1"}).unclean);
  wire->say(output_of("j", 0), "last words");
  CHECK(wire->take<OutputAck>().size() == 1);
}

TEST_CASE("metrics that are read off a program come from one node, and after the program's own") {
  Agents agents;
  agents.know(Observation{a_job("j", "a")});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}, {"n2"}}, ""}});
  const auto first = agents.connect(address_of("n1", "a"));
  const auto second = agents.connect(address_of("n2", "b"));
  const auto say = [](const auto& wire, const char* line, bool is_read_off) {
    wire->say(Progress{{"j"}, {0}, {0}, {}, {line}, {}, is_read_off});
  };
  say(second, "b1", true);
  say(first, "a1", true);
  say(second, "b2", true);
  say(second, "own", false);
  say(first, "a2", true);
  std::ostringstream lines;
  lines << std::ifstream(agents.home.metrics({"j"}, {0})).rdbuf();
  CHECK(lines.str() == "b1\na1\nown\n");
}

TEST_CASE("the end of a rank that the attempt does not have is not believed") {
  Placed agents;
  const auto& wire = agents.wire;
  const auto ends = [&](const char* job, std::int64_t attempt, std::int64_t rank) {
    RankEnded ended;
    ended.job = {job};
    ended.attempt = {attempt};
    ended.rank = {rank};
    wire->say(ended);
    return !std::exchange(agents.observed, {}).empty();
  };
  CHECK_FALSE(ends("unknown", 0, 0));
  CHECK_FALSE(ends("j", 1, 0));
  CHECK_FALSE(ends("j", 0, -1));
  CHECK_FALSE(ends("j", 0, 1));
  CHECK(ends("j", 0, 0));
}

TEST_CASE("reports about attempts that are not the node's do not reach the journal") {
  Agents agents;
  agents.know(Observation{a_job("j", "a")});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  const auto stranger = agents.connect(address_of("n2", "b"));
  stranger->say(CheckDone{{"j"}, {0}, {}, {}});
  stranger->say(StartDone{{"j"}, {0}, "forged"});
  stranger->say(AttemptClean{{"j"}, {0}, {}, {}});
  CHECK(agents.observed.empty());
}

TEST_CASE("an attempt that ended while its node was away is stopped, heard out and forgotten") {
  Agents agents;
  agents.end_job("j");
  const auto wire = agents.connect(address_of("n1", "a"));
  Welcome welcome;
  welcome.held = {{{"j"}, {0}}, {{"unknown"}, {0}}};
  agents.inbox.node_up({"n1"}, welcome);
  const auto stops = wire->take<StopAttempt>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].job.value == "j");
  wire->say(output_of("j", 0), "late words");
  CHECK(wire->take<OutputAck>().at(0).offset == 10);
  wire->say(AttemptClean{{"j"}, {0}, {}, {}});
  const auto forgotten = wire->take<ForgetAttempt>();
  REQUIRE(forgotten.size() == 1);
  CHECK(forgotten[0].job.value == "j");
  CHECK(agents.observed.empty());
}

// A node whose clock is 5 s ahead answers the newest ping.
void answer_ping(FakeWire& wire) {
  const auto pings = wire.take<Ping>();
  REQUIRE_FALSE(pings.empty());
  REQUIRE(pings.back().sent_us);
  const std::int64_t node_us = raw_time().count() + 5'000'000;
  wire.say(Pong{0, ClockStamps{*pings.back().sent_us, node_us, node_us}});
}

TEST_CASE("the end of a rank is journaled on the controller's clock") {
  Placed agents;
  const auto& wire = agents.wire;
  const std::int64_t before_us = raw_time().count();
  answer_ping(*wire);
  RankEnded ended;
  ended.job = {"j"};
  ended.status.signal = 11;
  ended.evidence.last_step = 7;
  ended.span = ExitSpan{before_us + 5'000'000, raw_time().count() + 5'000'000};
  wire->say(ended);
  REQUIRE(agents.observed.size() == 1);
  const auto& exited = std::get<RankExited>(agents.observed[0]);
  REQUIRE(exited.when);
  CHECK(exited.when->earliest_us <= before_us);
  CHECK(exited.when->latest_us >= before_us);
  CHECK(exited.when->latest_us - before_us < 4'000'000);
  CHECK(before_us - exited.when->earliest_us < 4'000'000);
  CHECK_FALSE(exited.when->clock.empty());
  CHECK(exited.evidence.last_step == 7);
}

TEST_CASE("what the job's rules say of a rank's end is journaled with it") {
  JobSubmitted job = a_job("j", "a");
  RestartRule rule;
  rule.id = "no-tokens";
  rule.stderr_regex = "no tokens";
  job.spec.muster.rules = {rule};
  Placed agents(job);
  const auto& wire = agents.wire;
  RankEnded ended;
  ended.job = {"j"};
  ended.status.code = 1;
  ended.last_lines = {"ValueError: no tokens"};
  SECTION("of a failure") {
    wire->say(ended);
    const auto& exited = std::get<RankExited>(agents.observed.at(0));
    REQUIRE(exited.rules.rule);
    CHECK(exited.rules.rule->id == "no-tokens");
  }
  SECTION("of a rank that was stopped after it had said why it would end") {
    ended.status = {0, 15};
    ended.asked_to_stop = true;
    wire->say(ended);
    CHECK(std::get<RankExited>(agents.observed.at(0)).rules.rule);
  }
  SECTION("not of one that was stopped and had said nothing") {
    ended.status = {0, 15};
    ended.asked_to_stop = true;
    ended.last_lines = {"step 17: no tokens left in this shard, next"};
    wire->say(ended);
    CHECK_FALSE(std::get<RankExited>(agents.observed.at(0)).rules.rule);
  }
}

TEST_CASE("without stamps of an agent's clock the time of an end is not known") {
  Placed agents;
  const auto& wire = agents.wire;
  RankEnded ended;
  ended.job = {"j"};
  ended.span = ExitSpan{1, 2};
  wire->say(ended);
  wire->say(Pong{});
  CHECK_FALSE(std::get<RankExited>(agents.observed.at(0)).when);
}

TEST_CASE("a link that is lost tells between which moments the node fell silent") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const std::int64_t before_us = raw_time().count();
  answer_ping(*wire);
  wire->handlers.on_closed({LinkFailureKind::lost, "gone"});
  REQUIRE(agents.silent_us);
  CHECK(agents.silent_us->most >= before_us);
  CHECK(agents.silent_us->most <= raw_time().count());
  CHECK(agents.silent_us->least <= agents.silent_us->most);
  CHECK(before_us - agents.silent_us->least < 4'000'000);
}

TEST_CASE("files that the controller cannot store are the node's to send again") {
  Placed agents;
  const auto& wire = agents.wire;
  wire->say(FileData{{"j"}, {0}, {TreeEntry::Kind::file, "elsewhere/x", 0600, 1, {}, {}}, 0, true},
            "x");
  wire->say(CollectDone{{"j"}, {0}, "", {}});
  REQUIRE(agents.observed.size() == 2);
  CHECK(std::holds_alternative<CollectionSeen>(agents.observed[0]));
  CHECK_THAT(std::get<OutputsCollected>(agents.observed[1]).error,
             ContainsSubstring("elsewhere/x"));
  wire->say(CollectDone{{"j"}, {0}, "", {}});
  CHECK(std::get<OutputsCollected>(agents.observed[2]).error.empty());
}

}  // namespace
}  // namespace muster
