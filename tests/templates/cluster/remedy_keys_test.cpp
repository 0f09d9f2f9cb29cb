#include <random>

#include "scheduler/model/remediation.h"
#include "templates/cluster/file.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

using Words = std::vector<std::string>;

ClusterFile read_remedies_of(const std::string& remedies) {
  return read_cluster_file("cluster.yml",
                           "compute:\n  lab:\n    nodes: n[01-04]\n    remedies:\n" + remedies,
                           in_project());
}

NodeFault fault_on(const std::string& device, const std::string& serial = "165") {
  NodeFault fault;
  fault.check = "gpu.xid";
  fault.device = device;
  fault.serial = serial;
  return fault;
}

TEST_CASE("a target's remedies are commands, split into words once") {
  const ClusterFile file = read_remedies_of(R"(      reset: sudo -n nvidia-smi --gpu-reset -i {gpu}
      reboot: [sudo, -n, systemctl, reboot]
      reboot_from_here: ipmitool -H '{node}-bmc' chassis power cycle
)");
  CHECK(printed(file.findings) == "");
  REQUIRE(file.targets.size() == 1);
  const RemedyCommands& commands = file.targets[0].remedies;
  CHECK(commands.reset == Words{"sudo", "-n", "nvidia-smi", "--gpu-reset", "-i", "{gpu}"});
  CHECK(commands.reboot == Words{"sudo", "-n", "systemctl", "reboot"});
  CHECK(commands.reboot_from_here ==
        Words{"ipmitool", "-H", "{node}-bmc", "chassis", "power", "cycle"});
}

TEST_CASE("a target without remedies has none: a person does it") {
  const ClusterFile file = read_cluster_file(
      "cluster.yml", "compute:\n  lab: {nodes: n1}\n  other: {nodes: n2, remedies: }\n",
      in_project());
  CHECK(printed(file.findings) == "");
  CHECK(file.targets.at(0).remedies.none());
  CHECK(file.targets.at(1).remedies.none());
}

TEST_CASE("what is wrong with a remedy is said with its line, and how it is written") {
  struct Row {
    std::string remedies, said;
  };
  const Row rows[] = {
      {"reset: nvidia-smi -i {gpus}", "there is no placeholder {gpus}; did you mean 'gpu'?"},
      {"reset: '{node} --now'", "the program itself cannot be a placeholder"},
      {"reset: nvidia-smi | tee log", "no shell reads this: | would be an argument"},
      {"reset: smi -i {gpu} && true", "no shell reads this: &"},
      {"reset: smi $GPU", "no shell reads this: $"},
      {"reset: smi \"$GPU\"", "no shell reads this: $"},
      {"reset: smi `hostname`", "no shell reads this: `"},
      {"reset: smi 'one", "the quote ' is not closed"},
      {"reset: smi \\", "nothing follows the last \\"},
      {"reset: ''", "expected a command"},
      {"reset: '  '", "expected a command"},
      {"reset: \"''\"", "expected a command"},
      {"reset:", "expected a command"},
      {"reset: []", "expected a command"},
      {"reset: {a: b}", "reset"},
      {"rest: smi", "unknown key 'rest'"},
      {"reboot_from_hear: smi", "did you mean 'reboot_from_here'?"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.remedies);
    const std::string said = printed(read_remedies_of("      " + row.remedies + "\n").findings);
    CHECK_THAT(said, ContainsSubstring(row.said));
    CHECK_THAT(said, ContainsSubstring("cluster.yml:5:"));
  }
  CHECK_THAT(printed(read_remedies_of("      - smi\n").findings), ContainsSubstring("error"));
}

TEST_CASE("a line is split as a shell that knows quotes alone would do it") {
  struct Row {
    std::string line;
    Words words;
  };
  const Row rows[] = {
      {"a b\tc", {"a", "b", "c"}},
      {"  a  ", {"a"}},
      {"a 'b c' \"d e\"", {"a", "b c", "d e"}},
      {"a''b", {"ab"}},
      {"a '' b", {"a", "", "b"}},
      {"a\\ b", {"a b"}},
      {"'a\\b'", {"a\\b"}},
      {"\"a\\\"b\"", {"a\"b"}},
      {"'$x | y'", {"$x | y"}},
      {"a \\; b", {"a", ";", "b"}},
      {"", {}},
      {"{node} x={gpu}", {"{node}", "x={gpu}"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    const auto words = command_words(row.line);
    REQUIRE(words);
    CHECK(*words == row.words);
  }
}

TEST_CASE("any line is words or an error, and no word is longer than the line") {
  std::mt19937 random(7);
  const std::string letters = "ab{}gpu'\"\\ \t|;$-\x01\xff";
  for (int round = 0; round < 5000; ++round) {
    std::string line;
    for (unsigned i = random() % 40; i > 0; --i) line += letters[random() % letters.size()];
    const auto words = command_words(line);
    if (!words) continue;
    for (const std::string& word : *words) REQUIRE(word.size() <= line.size());
    for (const std::string& word : *words) static_cast<void>(unknown_placeholder(word));
    static_cast<void>(remedy_argv(*words, NodeId{"n1"}, fault_on("gpu3")));
  }
}

}  // namespace
}  // namespace muster
