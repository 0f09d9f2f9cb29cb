#include "cli/health/run.h"

#include "tests/catch.h"

using namespace muster;

namespace {

// As Slurm 22.05 and 24.11 print it with -o; shortened, synthetic names.
const std::string idle =
    "NodeName=n17 Arch=x86_64 CoresPerSocket=48 CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.02 "
    "AvailableFeatures=(null) Gres=gpu:h100:8(S:0-1) NodeAddr=n17 NodeHostName=n17 Version=22.05.8 "
    "OS=Linux 5.15.0 RealMemory=1900000 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Partitions=gpu BootTime=2026-03-01T09:00:00 SlurmdStartTime=2026-03-01T09:01:00 "
    "CfgTRES=cpu=96,mem=1900000M,gres/gpu=8 AllocTRES= CapWatts=n/a\n";

std::string with_state(const std::string& state, const std::string& rest = "") {
  std::string text = idle;
  text.replace(text.find("State=IDLE"), 10, "State=" + state);
  text.insert(text.size() - 1, rest);
  return text;
}

struct SlurmStateCase {
  std::string text;
  bool is_drained;
  const char* reason;
};

}  // namespace

TEST_CASE("a node is drained in every state that Slurm calls so, with its reason") {
  const std::string own = "muster:node:ib.symbol:mlx5_3:1 6f01ab22 [root@2026-03-01T10:00:00]";
  const std::vector<SlurmStateCase> cases{
      {idle, false, ""},
      {with_state("MIXED"), false, ""},
      {with_state("IDLE+DRAIN", " Reason=" + own), true, own.c_str()},
      {with_state("ALLOCATED+DRAIN", " Reason=" + own), true, own.c_str()},
      {with_state("DOWN*+DRAIN", " Reason=" + own), true, own.c_str()},
      {with_state("MIXED+DRAIN+MAINTENANCE"), true, ""},
      {with_state("DRAINING@"), true, ""},
      {with_state("DRAINED"), true, ""},
      {with_state("IDLE+DRAIN*"), true, ""},
      {with_state("IDLE+DRAIN$~"), true, ""},
      {with_state("UNDRAIN"), false, ""},
      {with_state("DRAINX+IDLE"), false, ""},
      {with_state("*+"), false, ""},
      {with_state("DOWN*", " Reason=Not responding [slurm@2026-03-01T10:00:00]"), false,
       "Not responding [slurm@2026-03-01T10:00:00]"},
      {with_state("IDLE+DRAIN", " Reason=" + own + " Comment=a Reason=b"), true, own.c_str()},
      {with_state("IDLE+DRAIN", " Reason=fan [rack 3] noisy"), true, "fan [rack 3] noisy"},
      {with_state("IDLE+DRAIN", " Reason=State=IDLE NodeName=x"), true, "State=IDLE NodeName=x"},
  };
  for (const SlurmStateCase& one : cases) {
    CAPTURE(one.text);
    const auto node = parse_slurm_node(one.text, "n17");
    REQUIRE(node);
    CHECK(node->name == "n17");
    CHECK(node->is_drained == one.is_drained);
    CHECK(node->reason == one.reason);
  }
}

TEST_CASE("what is no line of that node is an error that says so") {
  CHECK(parse_slurm_node("", "n17").error().message == "scontrol does not show node n17");
  CHECK_FALSE(parse_slurm_node("Node n17 not found\n", "n17"));
  CHECK_FALSE(parse_slurm_node(std::string(100'000, 'x'), "n17"));
  CHECK_FALSE(parse_slurm_node(std::string("NodeName=n17\0State=IDLE", 23), "n17"));
  CHECK_THAT(parse_slurm_node(idle, "n1").error().message,
             ContainsSubstring("shows node n17 instead of n1"));
  CHECK_FALSE(parse_slurm_node("xNodeName=n17 State=IDLE", "n17"));
}
