#include <algorithm>
#include <charconv>
#include <set>

#include "health/benchmark/command.h"
#include "health/fault_isolation/measure.h"
#include "tests/catch.h"
#include "tests/health/fault_isolation/localise_fabric.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

std::vector<PairNode> two_nodes() {
  return {{"n1", "leaf1", {"mlx5_0", "mlx5_1"}}, {"n2", "leaf1", {"mlx5_0", "mlx5_1"}}};
}

// Nodes whose probes measure a model fabric. They believe the words that they are given alone.
class ModelNodes : public RunOnNode {
 public:
  ModelNodes(ModelFabric& fabric, bool has_verbs) : fabric_(fabric), has_verbs_(has_verbs) {
    const auto nodes = fabric.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) places_[nodes[i].name] = i;
  }

  std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) override {
    std::map<std::string, std::string> servers;  // by "host port"
    for (const NodeCommand& one : commands) {
      CHECK(one.token == "a-token-of-16-ch");
      CHECK(one.deadline.count() > 0);
      if (!one.words.front().ends_with("-serve")) continue;
      const std::string key = one.node + " " + port_of(one);
      CHECK(servers.emplace(key, one.node).second);  // no port is served twice on a node
    }
    std::vector<PairTest> tests;
    for (const NodeCommand& one : commands) {
      if (one.words.front().ends_with("-connect")) tests.push_back(test_of(one, servers));
    }
    const std::vector<PairResult> results = fabric_.run(tests);
    std::vector<NodeOutput> outputs;
    std::size_t next = 0;
    for (const NodeCommand& one : commands) {
      const bool connects = one.words.front().ends_with("-connect");
      outputs.push_back(connects ? said(one, results[next++]) : NodeOutput{});
    }
    return outputs;
  }

 private:
  static std::string port_of(const NodeCommand& command) {
    const auto read = ProbeWords::read(command.words, {"--port", "--seconds"});
    REQUIRE(read);
    const std::string port = read->text("--port");
    CHECK(std::stoi(port) + 64 <= 65535);
    return port;
  }
  PairTest test_of(const NodeCommand& command, std::map<std::string, std::string>& servers) {
    const auto read = ProbeWords::read(command.words, {"--port", "--seconds"});
    REQUIRE(read);
    const std::string& host = read->names().at(1);
    CHECK(servers.contains(host + " " + read->text("--port")));
    PairTest test{places_.at(host), places_.at(command.node), std::nullopt};
    const std::vector<std::string>& names = read->names();
    if (has_verbs_ && names.size() == 3) {
      test.rail = static_cast<std::size_t>(names[2].back() - '0');
    }
    return test;
  }
  NodeOutput said(const NodeCommand& command, const PairResult& result) {
    const auto names = ProbeWords::read(command.words, {"--port", "--seconds"})->names();
    Words devices{"-"};
    if (has_verbs_) devices.assign(names.begin() + 2, names.end());
    const std::string metric = has_verbs_ ? "ib_write_bw_host_gbps" : "tcp_gbps";
    std::string lines;
    for (const std::string& device : devices) {
      lines += metric + " " + device +
               (result.gb_per_s ? " " + std::to_string(*result.gb_per_s * 8) : " error too slow") +
               "\n";
    }
    return {lines, ""};
  }

  ModelFabric& fabric_;
  bool has_verbs_;
  std::map<std::string, NodeIndex> places_;
};

// Those that never answer.
class SilentNodes : public RunOnNode {
 public:
  std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) override {
    return std::vector<NodeOutput>(commands.size() / 2, {"", "the node does not answer"});
  }
};

PairMeasureOptions with_verbs(bool has_verbs) {
  PairMeasureOptions options;
  options.has_verbs = has_verbs;
  options.token = "a-token-of-16-ch";
  return options;
}

std::vector<FaultVerdict> localised(FabricShape shape, const std::vector<FabricFault>& faults,
                                    bool has_verbs) {
  ModelFabric fabric(shape, faults, 0, 7);
  ModelNodes on_nodes(fabric, has_verbs);
  SearchSettings settings;
  settings.seed = 3;
  FaultSearch search(fabric.nodes(), settings);
  const auto measured = measure_pairs(search, fabric.nodes(), on_nodes, with_verbs(has_verbs));
  CHECK(measured.complaints.empty());
  CHECK(measured.left_out.empty());
  return search.verdicts();
}

// Nodes of which somebody else has some, as the test says.
class SharedNodes : public RunOnNode {
 public:
  using IsTaken = std::function<bool(int round, const std::string& node, const std::string& mate)>;

  // `partner_says`: what the probe at the other end printed.
  SharedNodes(RunOnNode& nodes, IsTaken is_taken, std::string partner_says)
      : nodes_(nodes), is_taken_(std::move(is_taken)), partner_says_(std::move(partner_says)) {}

  std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) override {
    std::vector<NodeOutput> outputs = nodes_.run(commands);
    ++round_;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (!is_taken_(round_, commands[i].node, commands[i ^ 1].node)) continue;
      outputs[i] = {"", "job j1 holds it", true};
      outputs[i ^ 1] = {partner_says_, "the partner did not come"};
    }
    return outputs;
  }

 private:
  RunOnNode& nodes_;
  IsTaken is_taken_;
  std::string partner_says_;
  int round_ = 0;
};

struct Said {
  PairComplaints complaints;
  std::map<std::string, std::string> left_out;
  std::vector<FaultVerdict> verdicts;
};

Said measured_beside(const std::vector<FabricFault>& faults, SharedNodes::IsTaken is_taken,
                     const std::string& partner_says = "") {
  ModelFabric fabric({.leaves = 1, .nodes_per_leaf = 16, .rails = 1}, faults, 0, 7);
  ModelNodes on_nodes(fabric, false);
  SharedNodes shared(on_nodes, std::move(is_taken), partner_says);
  SearchSettings settings;
  settings.seed = 3;
  FaultSearch search(fabric.nodes(), settings);
  auto measured = measure_pairs(search, fabric.nodes(), shared, with_verbs(false));
  return {measured.complaints, measured.left_out, search.verdicts()};
}

}  // namespace

TEST_CASE("both ends of a TCP pair know port and host, and no rail") {
  PairMeasureOptions options = with_verbs(false);
  options.hosts["n1"] = "10.0.0.1";
  const PairCommands both = commands_of({0, 1, std::nullopt}, two_nodes(), 18700, options);
  CHECK(both.serve.node == "n1");
  CHECK(both.serve.words == Words{"tcp-serve", "--port", "18700"});
  CHECK(both.connect.node == "n2");
  CHECK(both.connect.words ==
        Words{"tcp-connect", "10.0.0.1", "--port", "18700", "--seconds", "10"});
  CHECK(both.serve.token == options.token);
}

TEST_CASE("both ends of an InfiniBand pair name their HCAs, or that of the rail") {
  const PairMeasureOptions options = with_verbs(true);
  const PairCommands all = commands_of({0, 1, std::nullopt}, two_nodes(), 18700, options);
  CHECK(all.serve.words ==
        Words{"ib-pair-serve", "mlx5_0", "mlx5_1", "--port", "18700", "--seconds", "10"});
  CHECK(all.connect.words ==
        Words{"ib-pair-connect", "n1", "mlx5_0", "mlx5_1", "--port", "18700", "--seconds", "10"});
  const PairCommands one = commands_of({0, 1, 1}, two_nodes(), 18700, options);
  CHECK(one.connect.words ==
        Words{"ib-pair-connect", "n1", "mlx5_1", "--port", "18700", "--seconds", "10"});
  CHECK(all.serve.deadline > one.serve.deadline);
}

TEST_CASE("of several HCAs the slowest counts, and one that said nothing is no result") {
  const PairMeasureOptions options = with_verbs(true);
  const PairTest test{0, 1, std::nullopt};
  const auto of = [&](const std::string& lines) {
    return result_of(test, two_nodes(), {lines, ""}, options).gb_per_s;
  };
  CHECK(of("ib_write_bw_host_gbps mlx5_0:1 380\nib_write_bw_host_gbps mlx5_1:1 200\n") == 25);
  CHECK_FALSE(of("ib_write_bw_host_gbps mlx5_0:1 380\n"));
  CHECK_FALSE(of("ib_write_bw_host_gbps mlx5_0:1 380\nib_write_bw_host_gbps mlx5_1:1 error no\n"));
  CHECK_FALSE(of(""));
  CHECK_FALSE(of("rubbish\ntcp_gbps - 80\n"));
  CHECK(result_of(test, two_nodes(), {"tcp_gbps - 80\n", ""}, with_verbs(false)).gb_per_s == 10);
}

TEST_CASE("a slow node is found over TCP, by what its probes print") {
  const auto verdicts = localised({.leaves = 2, .nodes_per_leaf = 8, .rails = 1},
                                  {{FabricFaultKind::node, 5, 0, 0.7}}, false);
  REQUIRE(verdicts.size() == 1);
  CHECK(drains(verdicts.front().kind));
  CHECK(verdicts.front().names == std::vector<std::string>{"n5"});
}

TEST_CASE("a slow rail is found over InfiniBand, by what its probes print") {
  const auto verdicts = localised({.leaves = 2, .nodes_per_leaf = 8, .rails = 4},
                                  {{FabricFaultKind::rail, 3, 2, 0.6}}, true);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts.front().kind == FaultKind::rail);
  CHECK(verdicts.front().names == std::vector<std::string>{"n3"});
  CHECK(verdicts.front().rail == "mlx5_2");
}

TEST_CASE("nodes that do not answer end the rounds, and are complained of") {
  const std::vector<PairNode> nodes = two_nodes();
  FaultSearch search(nodes, {});
  SilentNodes silent;
  const auto measured = measure_pairs(search, nodes, silent, with_verbs(false));
  REQUIRE_FALSE(measured.complaints.empty());
  CHECK_THAT(measured.complaints.front(), ContainsSubstring("answer"));
  CHECK(measured.left_out.empty());
}

TEST_CASE("a node that somebody else has in the first round is blamed for nothing, nor its mate") {
  const auto said = measured_beside(
      {}, [](int, const std::string& node, const std::string&) { return node == "n5"; });
  CHECK(said.left_out == std::map<std::string, std::string>{{"n5", "job j1 holds it"}});
  CHECK(said.complaints.empty());
  REQUIRE(said.verdicts.size() == 1);
  CHECK(said.verdicts.front().kind == FaultKind::clean);
}

TEST_CASE("who waited for a processor beside a node that somebody else has is not left out") {
  const auto said = measured_beside(
      {}, [](int, const std::string& node, const std::string&) { return node == "n5"; },
      "waited_pct - 31.4\n");
  CHECK(said.left_out == std::map<std::string, std::string>{{"n5", "job j1 holds it"}});
}

// Nodes whose probes print what they waited for a processor, and are slower for it.
class BusyNodes : public RunOnNode {
 public:
  BusyNodes(RunOnNode& nodes, std::string busy, bool is_slowed)
      : nodes_(nodes), busy_(std::move(busy)), is_slowed_(is_slowed) {}

  std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) override {
    std::vector<NodeOutput> outputs = nodes_.run(commands);
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (commands[i].node != busy_) continue;
      const std::size_t connecting = i | 1;
      if (is_slowed_) outputs[connecting].lines = "tcp_gbps - 1\n";
      outputs[i].lines += "waited_pct - 31.4\n";
    }
    return outputs;
  }

 private:
  RunOnNode& nodes_;
  std::string busy_;
  bool is_slowed_;
};

Said measured_busy(bool is_slowed) {
  ModelFabric fabric({.leaves = 1, .nodes_per_leaf = 8, .rails = 1}, {}, 0, 7);
  ModelNodes on_nodes(fabric, false);
  BusyNodes busy(on_nodes, "n5", is_slowed);
  SearchSettings settings;
  settings.seed = 3;
  FaultSearch search(fabric.nodes(), settings);
  auto measured = measure_pairs(search, fabric.nodes(), busy, with_verbs(false));
  return {measured.complaints, measured.left_out, search.verdicts()};
}

TEST_CASE("a node that had no processor for its probe is left out and blamed for nothing") {
  const Said said = measured_busy(true);
  CHECK(said.left_out ==
        std::map<std::string, std::string>{
            {"n5", "busy: its benchmark waited for a processor for 31 % of the time"}});
  REQUIRE(said.verdicts.size() == 1);
  CHECK(said.verdicts.front().kind == FaultKind::clean);
  // As fast as the others it was not held up.
  CHECK(measured_busy(false).left_out.empty());
}

TEST_CASE("a partner that a job took is no evidence: the suspect is named with another one") {
  int taken = 0;
  const auto said =
      measured_beside({{FabricFaultKind::node, 3, 0, 0.7}},
                      [&](int round, const std::string& node, const std::string& partner) {
                        return partner == "n3" && round == 2 && node != "n3" && ++taken > 0;
                      });
  CHECK(taken == 1);
  REQUIRE(said.left_out.size() == 1);
  REQUIRE(said.verdicts.size() == 1);
  CHECK(said.verdicts.front().names == std::vector<std::string>{"n3"});
  CHECK_FALSE(said.verdicts.front().no_result);
  for (const std::string& line : said.verdicts.front().evidence) {
    CHECK(line.find(said.left_out.begin()->first + " ") == line.npos);
  }
}

TEST_CASE("a suspect that only partners who were taken measured is not named") {
  const auto said =
      measured_beside({{FabricFaultKind::node, 3, 0, 0.7}},
                      [](int round, const std::string& node, const std::string& partner) {
                        return partner == "n3" && round >= 2 && node != "n3";
                      });
  CHECK(said.left_out.size() >= 2);
  REQUIRE(said.verdicts.size() == 1);
  CHECK(said.verdicts.front().kind == FaultKind::clean);
}

TEST_CASE("however many pairs there are, their ports are ports") {
  ModelFabric fabric({.leaves = 8, .nodes_per_leaf = 16, .rails = 8}, {}, 0, 7);
  ModelNodes on_nodes(fabric, true);
  FaultSearch search(fabric.nodes(), {});
  PairMeasureOptions options = with_verbs(true);
  options.first_port = 65'000;
  CHECK(measure_pairs(search, fabric.nodes(), on_nodes, options).complaints.empty());
}

TEST_CASE("nodes that share a machine share no port, whatever their addresses") {
  ModelFabric fabric({.leaves = 1, .nodes_per_leaf = 8, .rails = 1}, {}, 0, 7);
  std::vector<std::string> ports;
  class Listening : public RunOnNode {
   public:
    explicit Listening(std::vector<std::string>& ports) : ports_(ports) {}
    std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) override {
      for (const NodeCommand& one : commands) {
        const auto read = ProbeWords::read(one.words, {"--port", "--seconds"});
        if (one.words.front().ends_with("-serve")) ports_.push_back(read->text("--port"));
      }
      return std::vector<NodeOutput>(commands.size(), {"", "no", true});
    }

   private:
    std::vector<std::string>& ports_;
  } on_nodes(ports);
  FaultSearch search(fabric.nodes(), {});
  PairMeasureOptions options = with_verbs(false);
  SECTION("one address") {
    for (const PairNode& node : fabric.nodes()) options.hosts[node.name] = "10.0.0.1";
  }
  SECTION("an address each") {
    for (const PairNode& node : fabric.nodes()) {
      options.hosts[node.name] = "10.0.0." + std::to_string(options.hosts.size() + 1);
      options.machines[node.name] = "3f2a";
    }
  }
  CHECK(measure_pairs(search, fabric.nodes(), on_nodes, options).left_out.size() == 8);
  CHECK(ports.size() == 4);
  CHECK(std::set<std::string>(ports.begin(), ports.end()).size() == 4);
}
