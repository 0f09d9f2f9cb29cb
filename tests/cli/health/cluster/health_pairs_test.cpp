// Measuring pairs of nodes, as far as it is words and numbers: who takes part, below which leaves,
// over which rails, and what is said at the end.
#include <nlohmann/json.hpp>

#include "cli/health/cluster/nodes.h"
#include "cli/health/cluster/pairs.h"
#include "health/output/finding_report.h"
#include "tests/catch.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

PairCandidate candidate(const std::string& node, const Words& hcas = {},
                        const std::string& busy = "") {
  return {node, NodeReadiness{busy, hcas}, ""};
}

ComputeTarget target_of(const Words& nodes) {
  ComputeTarget target;
  target.name = "lab";
  for (const std::string& node : nodes) {
    NodeAddress address;
    address.id = {node};
    address.host = "10.0.0." + node.substr(1);
    target.nodes.push_back(address);
  }
  return target;
}

FaultVerdict verdict(FaultKind kind, const Words& names, const std::string& rail = "") {
  FaultVerdict one;
  one.kind = kind;
  one.names = names;
  one.rail = rail;
  one.evidence = {"with n1 in round 1: 0.1 GB/s, 50.0 % below the median"};
  return one;
}

PairsResult a_result(std::vector<FaultVerdict> verdicts = {}) {
  PairsResult result;
  result.at = from_ms(1'800'000'000'000);
  result.took = Milliseconds{31'000};
  result.target = "lab";
  result.nodes = {"n1", "n2", "n3", "n4"};
  result.rounds = 3;
  result.median_gb_per_s = 1.25;
  result.noise = 0.012;
  result.verdicts = std::move(verdicts);
  return result;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("what a node says of itself is read back, and an answer without its end is none") {
  const NodeReadiness said{"gpu0 is used by process 4711",
                           {"mlx5_0", "mlx5_1:2"},
                           {{"mlx5_0", 0x506b4b0300cc1234}, {"mlx5_1:2", 7}},
                           "3f2a-b1"};
  const auto read = read_readiness(text_of(said));
  REQUIRE(read);
  CHECK(read->busy == said.busy);
  CHECK(read->hcas == said.hcas);
  CHECK(read->guids == said.guids);
  CHECK(read->boot_id == said.boot_id);
  for (const std::string& id : {std::string(), std::string("x y"), std::string(65, 'a')}) {
    CHECK(read_readiness("boot " + id + "\nready\n")->boot_id.empty());
  }
  CHECK(
      read_readiness("guid 0x0 a\nguid 12 a\nguid 0xg a\nguid 0x1\nguid \nready\n")->guids.empty());
  CHECK(read_readiness("guid 0x11112222333344445 a\nready\n")->guids.empty());
  CHECK(read_readiness("ready\n")->busy.empty());
  CHECK(read_readiness("later 7\nhca mlx5_0\nready\n")->hcas == Words{"mlx5_0"});
  for (const char* text : {"", "ready", "hca mlx5_0\n", "busy x\nread", "\n\n", "\xff\x01"}) {
    CAPTURE(text);
    CHECK_FALSE(read_readiness(text));
  }
  std::string endless;
  for (int i = 0; i < 5000; ++i) endless += "hca mlx5_" + std::to_string(i) + "\n";
  CHECK(read_readiness(endless + "ready\n")->hcas.size() == 64);
}

TEST_CASE("leaves come from lines of a node and its leaf; what is wrong is told with its line") {
  const auto leaves = read_leaves("# lab\nn1 leaf1\n\n n2\tleaf2  # row two\r\nn3 leaf2");
  REQUIRE(leaves);
  CHECK(*leaves == LeafOfNode{{"n1", "leaf1"}, {"n2", "leaf2"}, {"n3", "leaf2"}});
  CHECK(read_leaves("")->empty());
  CHECK(read_leaves("n1 leaf1\nn2\n").error().message == "line 2: expected a node and its leaf");
  CHECK(read_leaves("n1 leaf1 x\n").error().message == "line 1: expected a node and its leaf");
  CHECK(read_leaves("n1 a\nn1 b\n").error().message == "line 2: node n1 comes twice");
  CHECK_FALSE(read_leaves(std::string(70'000, '\n')));
}

TEST_CASE("nodes that are not idle are refused together, left out or measured all the same") {
  const std::vector<PairCandidate> candidates{candidate("n1"),
                                              candidate("n2", {}, "job j1 runs"),
                                              {"n3", std::nullopt, "no route to n3"},
                                              candidate("n4", {}, "2.0 of 2 processors are busy")};
  const auto refused = team_of(candidates, {});
  REQUIRE_FALSE(refused);
  CHECK(has(refused.error().message, "n2: job j1 runs; n4: 2.0 of 2 processors are busy"));

  const auto idle = team_of(candidates, {.idle_only = true, .force = false});
  REQUIRE(idle);
  REQUIRE(idle->members.size() == 1);
  CHECK(idle->members[0].node == "n1");
  REQUIRE(idle->left_out.size() == 3);
  CHECK(idle->left_out[0].is_meant);
  CHECK(idle->left_out[1].node == "n3");
  CHECK(idle->left_out[1].why == "no route to n3");
  CHECK_FALSE(idle->left_out[1].is_meant);

  const auto forced = team_of(candidates, {.idle_only = false, .force = true});
  REQUIRE(forced);
  CHECK(forced->members.size() == 3);
  CHECK(forced->busy.size() == 2);
  CHECK(team_of(candidates, {.idle_only = true, .force = true})->members.size() == 3);

  // Nobody's word makes a job's node one to be measured.
  const std::vector<PairCandidate> held{candidate("n1"), held_candidate("n2", "j1")};
  const auto no = team_of(held, {.idle_only = false, .force = true});
  REQUIRE_FALSE(no);
  CHECK(has(no.error().message, "not idle: n2: job j1 has it"));
  CHECK(team_of(held, {.idle_only = true, .force = true})->members.size() == 1);
}

TEST_CASE("rails are the devices that all nodes have, as far as the profile names them") {
  const std::vector<PairCandidate> members{candidate("n1", {"mlx5_10", "mlx5_2", "mlx5_0"}),
                                           candidate("n2", {"mlx5_0", "mlx5_2", "mlx5_10"}),
                                           candidate("n3", {"mlx5_2", "mlx5_10"})};
  const CommonRails all = common_rails(members, {});
  CHECK(all.rails == Words{"mlx5_2", "mlx5_10"});
  CHECK(all.not_of_all == Words{"mlx5_0"});
  HealthProfile profile;
  profile.ib.ports = {"mlx5_1*:1"};
  CHECK(common_rails(members, profile).rails == Words{"mlx5_10"});
  profile.ib.ports = {"mlx5_2"};
  CHECK(common_rails(members, profile).rails == Words{"mlx5_2"});
  CHECK(common_rails({candidate("n1"), candidate("n2")}, {}).rails.empty());
}

TEST_CASE("nodes below no known leaf are together below one, and floors are of the profile") {
  const std::vector<PairCandidate> members{candidate("n1"), candidate("n2"), candidate("n3")};
  for (const PairNode& node : pair_nodes(members, {}, {})) CHECK(node.leaf == "all");
  const auto nodes = pair_nodes(members, {"mlx5_0"}, {{"n1", "leaf1"}});
  CHECK(nodes[0].leaf == "leaf1");
  CHECK(nodes[1].leaf == "other");
  CHECK(nodes[2].leaf == "other");
  CHECK(nodes[0].rails == Words{"mlx5_0"});
  HealthProfile profile;
  profile.floors = {{"tcp_gbps", 80}, {"ib_write_bw_host_gbps", 160}};
  PairMeasureOptions options;
  CHECK(pair_settings(profile, options, 1).floor == 10);
  options.has_verbs = true;
  CHECK(pair_settings(profile, options, 1).floor == 20);
  CHECK_FALSE(pair_settings({}, options, 1).floor);
}

TEST_CASE("pairs over InfiniBand are told under its check, with the number of rails") {
  PairsResult result = a_result({verdict(FaultKind::rail, {"n4"}, "mlx5_3")});
  result.has_verbs = true;
  result.rails = {"mlx5_0", "mlx5_1"};
  CHECK(has(pairs_text(result, {}), "4 nodes over InfiniBand, 2 rails, 3 rounds"));
  CHECK(pairs_document(result)["over"] == "infiniband");
  const auto reports = pairs_reports(result);
  REQUIRE(reports.size() == 4);
  for (const FindingReport& report : reports) CHECK(report.check == "perf.ib_pair");
  CHECK(reports[0].device == "mlx5_3");
  CHECK(reports[1].status == "pass");
}

TEST_CASE("nodes are connected to by the address that a job would use") {
  ComputeTarget target = target_of({"n1", "n2"});
  target.nodes[1].job_address = "192.168.0.2";
  CHECK(pair_hosts(target) ==
        std::map<std::string, std::string>{{"n1", "10.0.0.1"}, {"n2", "192.168.0.2"}});
  CHECK(unreachable_by_others(target).empty());
  target.nodes[0].host.clear();
  CHECK(unreachable_by_others(target) == "n1");
}

TEST_CASE("the controller is asked for the benchmarks in their order, on the nodes that have one") {
  const std::vector<NodeCommand> commands{
      {"n3", {"tcp-serve", "--port", "18700"}, "a-token-of-a-run", std::chrono::seconds(90)},
      {"n1", {"tcp-connect", "10.0.0.3"}, "a-token-of-a-run", std::chrono::seconds(90)}};
  const MeasureNodes request =
      probes_of(target_of({"n1", "n2", "n3"}), commands, Milliseconds{5000});
  REQUIRE(request.nodes.size() == 1);
  REQUIRE(request.nodes[0].target.nodes.size() == 2);
  CHECK(request.nodes[0].target.nodes[1].id.value == "n3");
  REQUIRE(request.probes.size() == 2);
  CHECK(request.probes[0].node.value == "n3");
  CHECK(request.probes[0].limit == Milliseconds{90'000});
  CHECK(request.token == "a-token-of-a-run");
  CHECK(request.timeout == Milliseconds{5000});
  for (const NodeProbe& probe : request.probes) {
    for (const std::string& word : probe.words) CHECK_FALSE(has(word, "a-token"));
  }
}

TEST_CASE("what is named ends with 1, nothing with 0, and what is unknown with 3") {
  CHECK(pairs_exit(a_result()) == HealthExit::healthy);
  for (const FaultKind kind :
       {FaultKind::node, FaultKind::rail, FaultKind::path, FaultKind::leaf, FaultKind::infra}) {
    CHECK(pairs_exit(a_result({verdict(kind, {"n3"})})) == HealthExit::drained);
  }
  CHECK(pairs_exit(a_result({verdict(FaultKind::doubtful, {"n3"})})) == HealthExit::unclear);

  PairsResult noisy = a_result();
  noisy.noise = 0.08;
  CHECK(pairs_exit(noisy) == HealthExit::unclear);
  CHECK(has(pairs_text(noisy, {}), "unknown: pairs differ by 8.0 %"));
  noisy.verdicts = {verdict(FaultKind::node, {"n3"})};  // beyond that noise
  CHECK(pairs_exit(noisy) == HealthExit::drained);

  PairsResult partial = a_result();
  partial.left_out = {{"n5", "not idle: job j1 runs", true}};
  CHECK(pairs_exit(partial) == HealthExit::healthy);
  partial.left_out.push_back({"n6", "no route", false});
  CHECK(pairs_exit(partial) == HealthExit::unclear);
  CHECK(has(pairs_text(partial, {}), "n6 did not take part"));

  // A firewall keeps all of them from each other: no node is to blame.
  PairsResult silent = a_result({verdict(FaultKind::infra, {})});
  silent.median_gb_per_s = 0;
  silent.complaints = {"n1 n2: cannot connect"};
  CHECK(pairs_exit(silent) == HealthExit::unclear);
  CHECK(has(pairs_text(silent, {}), "no pair gave a number: n1 n2: cannot connect"));
}

TEST_CASE("a node that somebody else had during the measurement is not blamed for its silence") {
  PairsResult result =
      a_result({verdict(FaultKind::node, {"n3"}), verdict(FaultKind::path, {"n1", "n3"}),
                verdict(FaultKind::leaf, {"leaf1"})});
  PairsResult other = result;
  leave_out_taken(result, {{"n3", "job j1 holds it"}});
  CHECK(result.verdicts.empty());
  CHECK(pairs_exit(result) == HealthExit::unclear);
  CHECK(has(pairs_text(result, {}), "skipped: n3: job j1 holds it"));
  CHECK(has(pairs_text(result, {}), "3 nodes over TCP"));
  other.verdicts.push_back(verdict(FaultKind::node, {"n4"}));
  leave_out_taken(other, {{"n3", "it is being measured already"}});
  REQUIRE(other.verdicts.size() == 1);
  CHECK(other.verdicts[0].names == Words{"n4"});
  CHECK(pairs_exit(other) == HealthExit::drained);
  PairsResult kept = a_result({verdict(FaultKind::leaf, {"leaf1"})});
  leave_out_taken(kept, {});
  CHECK(kept.verdicts.size() == 1);
}

TEST_CASE("people read what is slow, with the measurements that say so") {
  const std::string text = pairs_text(
      a_result({verdict(FaultKind::node, {"n3"}), verdict(FaultKind::rail, {"n4"}, "mlx5_3"),
                verdict(FaultKind::path, {"n1", "n2"}), verdict(FaultKind::leaf, {"leaf1"})}),
      {});
  CHECK(has(text, "slow: node n3\n  with n1 in round 1: 0.1 GB/s"));
  CHECK(has(text, "slow: rail mlx5_3 of n4\n"));
  CHECK(has(text, "slow: the path between n1, n2\n"));
  CHECK(has(text, "4 nodes over TCP, 3 rounds in 31s: median 1.25 GB/s, noise 1.2 %\n"));
  CHECK(has(text, "slow: node n3, rail mlx5_3 of n4, the path between n1, n2, leaf leaf1\n"));
  CHECK(has(pairs_text(a_result(), {}), "no pair is slower than the others\n"));
  PairsResult hostile = a_result({verdict(FaultKind::node, {"n\x1b[2J3"})});
  CHECK_FALSE(has(pairs_text(hostile, {}), "\x1b[2J"));
}

TEST_CASE("programs read verdicts, and monitors a finding for each node") {
  const PairsResult result = a_result(
      {verdict(FaultKind::rail, {"n3"}, "mlx5_3"), verdict(FaultKind::path, {"n1", "n2"})});
  const Document out = pairs_document(result);
  CHECK(out["state"] == "slow");
  CHECK(out["over"] == "tcp");
  CHECK(out["profile"].is_null());
  CHECK(out["verdicts"][0]["kind"] == "rail");
  CHECK(out["verdicts"][0]["names"][0] == "n3");
  CHECK(out["verdicts"][0]["rail"] == "mlx5_3");
  CHECK(out["verdicts"][1]["rail"].is_null());
  CHECK(out["median_gb_per_s"] == 1.25);
  const auto reports = pairs_reports(result);
  REQUIRE(reports.size() == 5);  // both verdicts; n1, n2 and n4 are not named
  CHECK(reports[0].host == "n3");
  CHECK(reports[0].device == "mlx5_3");
  CHECK(reports[0].status == "fail");
  CHECK(reports[1].host.empty());
  CHECK(reports[1].fault_class == "infra");
  CHECK(reports[2].status == "pass");
  const PluginAnswer answer = nagios_answer(reports, HostNames::told);
  CHECK(answer.exit_code == 1);
  CHECK(answer.line.starts_with("MUSTER WARNING - "));
  CHECK(has(answer.line, "n3 perf.tcp_pair mlx5_3 slow"));
  CHECK(pairs_document(a_result())["state"] == "clean");
  CHECK(nagios_answer(pairs_reports(a_result())).exit_code == 0);
}
