#include "health/benchmark/plan.h"

#include <algorithm>
#include <set>

#include "health/benchmark/plan.h"
#include "health/model/performance.h"
#include "tests/catch.h"
#include "tests/health/profile_with_floors.h"

using namespace muster;

namespace {

ProbeSituation gpu_node() {
  ProbeSituation node;
  node.gpus = 8;
  node.hcas = {"mlx5_0", "mlx5_1"};
  node.disk_directory = "/scratch";
  return node;
}

const PlannedProbe& planned(const ProbePlan& plan, std::string_view name) {
  const auto found = std::ranges::find(plan.probes, name,
                                       [](const PlannedProbe& probe) { return probe.spec->name; });
  REQUIRE(found != plan.probes.end());
  return *found;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("every probe measures metrics that there are, each metric is measured by one probe") {
  std::set<std::string_view> measured;
  for (const ProbeSpec& spec : probe_specs()) {
    INFO(spec.name);
    CHECK(find_probe(spec.name) == &spec);
    CHECK(spec.time.count() > 0);
    CHECK(spec.limit.count() > 0);
    for (const std::string_view metric : spec.metrics) {
      INFO(metric);
      CHECK(find_performance_metric(metric) != nullptr);
      CHECK(measured.insert(metric).second);
    }
  }
  CHECK(find_probe("speed") == nullptr);
}

TEST_CASE("what the profile states a floor for is measured, and nothing else") {
  const auto profile =
      with_floors({{"h2d_gb_per_s", 48}, {"hbm_mb_per_s", 1'905'000}, {"stream_mb_per_s", 1}});
  const ProbePlan plan = plan_probes(profile, gpu_node());
  CHECK(probe_names(plan) == Names{"memory", "gpu-host", "gpu-memory"});
  CHECK(planned(plan, "gpu-host").metrics == Names{"h2d_gb_per_s"});
  CHECK(planned(plan, "memory").words == Names{"memory"});
  CHECK(plan.impossible.empty());
  CHECK(time_of(plan) == std::chrono::seconds(25));
  for (const PlannedProbe& probe : plan.probes) CHECK(probe.killed_after > probe.time);
}

TEST_CASE("what counts faults is run where the profile or somebody names it, and only there") {
  ProbeSituation node = gpu_node();
  node.learns = true;
  const auto plans = [&](const HealthProfile& profile) {
    const auto names = probe_names(plan_probes(profile, node));
    return std::ranges::find(names, "dcgm") != names.end();
  };
  HealthProfile profile;
  CHECK_FALSE(plans(profile));
  profile.checks["perf.*"].mode = CheckMode::enforce;
  CHECK_FALSE(plans(profile));
  profile.checks["perf.dcgm"].mode = CheckMode::observe;
  CHECK(plans(profile));
  profile.checks["perf.dcgm"].mode = CheckMode::off;
  CHECK_FALSE(plans(profile));
  HealthProfile required;
  required.required = {"perf.dcgm"};
  CHECK(plans(required));
  node.gpus = 0;
  const ProbePlan without = plan_probes(required, node);
  REQUIRE(without.impossible.size() == 1);
  CHECK(without.impossible[0].error == "the node shows no GPU");
  node.gpus = 8;
  node.named = {"dcgm"};
  CHECK(plans({}));
  CHECK(probe_names(expected_plan({}, {.named = {"dcgm"}})) == Names{"dcgm"});
}

TEST_CASE("results of processors are verified where somebody asks for it, and nowhere else") {
  const auto verifies = [](const HealthProfile& profile, const ProbeSituation& node) {
    const auto names = probe_names(plan_probes(profile, node));
    return std::ranges::find(names, "cpu-sdc") != names.end();
  };
  ProbeSituation node = gpu_node();
  node.learns = true;
  HealthProfile profile;
  CHECK_FALSE(verifies(profile, node));
  profile.checks["perf.*"].mode = CheckMode::enforce;
  CHECK_FALSE(verifies(profile, node));
  ProbeSituation asked = node;
  asked.verify = std::chrono::minutes(1);
  CHECK(verifies({}, asked));
  ProbeSituation named = node;
  named.named = {"cpu-sdc"};
  CHECK(verifies({}, named));
  profile.required = {"perf.sdc"};
  CHECK(verifies(profile, node));
  profile.checks["perf.sdc"].mode = CheckMode::off;
  CHECK_FALSE(verifies(profile, named));
}

TEST_CASE("how long results are verified is said by whoever asks, else by the profile") {
  using std::chrono::minutes;
  HealthProfile profile;
  profile.required = {"perf.sdc"};
  ProbeSituation node;
  const auto verify = [&] { return planned(plan_probes(profile, node), "cpu-sdc"); };
  CHECK(verify().words == Names{"cpu-sdc", "--seconds", "20"});
  profile.checks["perf.sdc"].limits["time_min"] = 60;
  CHECK(verify().time == minutes(60));
  CHECK(verify().killed_after > minutes(60));
  node.verify = minutes(2);
  CHECK(verify().words == Names{"cpu-sdc", "--seconds", "120"});
  ProbeSituation wanted;
  wanted.verify = minutes(3);
  CHECK(time_of(expected_plan({}, wanted)) == minutes(3));
}

TEST_CASE("the level of DCGM's diagnostics is the profile's, and so is their time") {
  HealthProfile profile;
  const auto dcgm = [&] { return planned(plan_probes(profile, gpu_node()), "dcgm"); };
  profile.required = {"perf.dcgm"};
  CHECK(dcgm().words == Names{"dcgm", "--level", "1"});
  CHECK(dcgm().killed_after > std::chrono::minutes(2));
  CHECK(dcgm().killed_after < std::chrono::minutes(3));
  profile.checks["perf.dcgm"].limits["level"] = 3;
  CHECK(dcgm().words == Names{"dcgm", "--level", "3"});
  CHECK(dcgm().time == std::chrono::minutes(15));
  CHECK(dcgm().killed_after > std::chrono::minutes(45));
}

TEST_CASE("the benchmarks of each GPU should tell of as many as the profile states") {
  auto profile = with_floors({{"h2d_gb_per_s", 48}, {"p2p_gb_per_s", 1}, {"stream_mb_per_s", 1}});
  const auto devices = [&](std::string_view name) {
    return planned(plan_probes(profile, gpu_node()), name).devices;
  };
  CHECK(devices("gpu-host") == 0);
  profile.gpu.count = 8;
  CHECK(devices("gpu-host") == 8);
  CHECK(devices("gpu-peer") == 0);
  CHECK(devices("memory") == 0);
  profile.exclude.push_back({"gpu.*", "gpu3", ""});
  CHECK(devices("gpu-host") == 0);
}

TEST_CASE("a profile without floors needs no probe") {
  const ProbePlan plan = plan_probes({}, gpu_node());
  CHECK(plan.probes.empty());
  CHECK(plan.impossible.empty());
  CHECK(time_of(plan) == std::chrono::seconds(0));
}

TEST_CASE("a profile that is to be learned from a GPU node wants each of its figures once") {
  ProbeSituation node = gpu_node();
  node.learns = true;
  const ProbePlan plan = plan_probes({}, node);
  CHECK(probe_names(plan) == Names{"cpu", "memory", "gpu-host", "gpu-memory", "ib-loop", "disk",
                                   "gpu-peer", "gpu-nccl", "gpu-nccl-loop"});
  CHECK(planned(plan, "gpu-nccl").metrics == Names{"allreduce8_gb_per_s"});
  CHECK(planned(plan, "gpu-nccl").words == Names{"gpu-nccl", "--gpus", "8"});
}

TEST_CASE("a profile that is to be learned wants all that the node has") {
  ProbeSituation node;
  node.learns = true;
  const ProbePlan plan = plan_probes({}, node);
  CHECK(probe_names(plan) == Names{"cpu", "memory"});
  CHECK(plan.impossible.empty());
  node.disk_directory = "/scratch";
  CHECK(probe_names(plan_probes({}, node)) == Names{"cpu", "memory", "disk"});
  CHECK(planned(plan_probes({}, node), "disk").words == Names{"disk", "/scratch"});
}

TEST_CASE("a floor for a device that the node does not show is unknown, not passed over") {
  ProbeSituation node = gpu_node();
  node.gpus = 0;
  const ProbePlan plan = plan_probes(with_floors({{"h2d_gb_per_s", 48}}), node);
  CHECK(plan.probes.empty());
  REQUIRE(plan.impossible.size() == 1);
  CHECK(plan.impossible[0].metric == "h2d_gb_per_s");
  CHECK(plan.impossible[0].error == "the node shows no GPU");
  CHECK(plan.impossible[0].is_absent);
}

TEST_CASE("checks that are off or excluded are not measured") {
  HealthProfile profile = with_floors({{"h2d_gb_per_s", 48}, {"hbm_mb_per_s", 1}});
  profile.checks["perf.h2d_d2h"].mode = CheckMode::off;
  CHECK(probe_names(plan_probes(profile, gpu_node())) == Names{"gpu-memory"});
  profile.exclude.push_back({"perf.hbm", "", "no"});
  CHECK(plan_probes(profile, gpu_node()).probes.empty());
}

TEST_CASE("pairs say what each of their ends runs") {
  PlannedProbe tcp;
  tcp.words = {"tcp"};
  CHECK(serving_words(tcp, 7001) == Names{"tcp-serve", "--port", "7001"});
  CHECK(connecting_words(tcp, "n2", 7001) == Names{"tcp-connect", "n2", "--port", "7001"});
  PlannedProbe pair;
  pair.words = {"ib-pair", "mlx5_0", "mlx5_1"};
  CHECK(serving_words(pair, 7001) == Names{"ib-pair-serve", "mlx5_0", "mlx5_1", "--port", "7001"});
  CHECK(connecting_words(pair, "n2", 7001) ==
        Names{"ib-pair-connect", "n2", "mlx5_0", "mlx5_1", "--port", "7001"});
}

TEST_CASE("a loop over HCAs needs two of them, and names the GPUs whose memory it writes") {
  ProbeSituation node = gpu_node();
  const auto profile = with_floors({{"ib_write_bw_gbps", 380}});
  CHECK(planned(plan_probes(profile, node), "ib-loop").words ==
        Names{"ib-loop", "mlx5_0", "mlx5_1", "--gpus", "8"});
  node.hcas.pop_back();
  CHECK(plan_probes(profile, node).impossible.size() == 1);
}

TEST_CASE("what measuring a node takes is told from its profile") {
  HealthProfile profile = with_floors({{"stream_mb_per_s", 1}, {"ib_write_bw_gbps", 1}});
  CHECK(probe_names(expected_plan(profile, {})) == Names{"memory", "ib-loop"});
  // Eight adapters of ten seconds each, unless the profile says how many there are.
  CHECK(time_of(expected_plan(profile, {})) == std::chrono::seconds(5 + 80));
  profile.ib.ports = {"mlx5_[0-3]:1", "mlx5_an0:1"};
  CHECK(time_of(expected_plan(profile, {})) == std::chrono::seconds(5 + 50));
  CHECK(longest_time_of(expected_plan(profile, {})) == std::chrono::seconds(60 + 50 + 20));
  for (const char* strange :
       {"mlx5_[7-0]:1", "mlx5_[a-b]", "mlx5_[0", "mlx5_[0-9999]", "*", "[-]"}) {
    INFO(strange);
    profile.ib.ports = {strange};
    CHECK(time_of(expected_plan(profile, {})) == std::chrono::seconds(5 + 80));
  }
  CHECK(expected_plan({}, {}).probes.empty());
}

TEST_CASE("probes that are named are expected, floor or none") {
  CHECK(probe_names(expected_plan({}, {.named = {"cpu", "disk"}, .disk_directory = "/scratch"})) ==
        Names{"cpu", "disk"});
  CHECK(probe_names(expected_plan({}, {.named = {"cpu", "disk"}})) == Names{"cpu"});
  const HealthProfile profile = with_floors({{"fio_read_mb_per_s", 1}, {"stream_mb_per_s", 1}});
  CHECK(probe_names(expected_plan(profile, {})) == Names{"memory"});
  // Of one node alone, however many more there are.
  CHECK(probe_names(expected_plan(profile, {.learns = true})).size() == 8);
  HealthProfile off = with_floors({{"stream_mb_per_s", 1}});
  off.checks["perf.stream"].mode = CheckMode::off;
  CHECK(expected_plan(off, {.named = {"memory"}}).probes.empty());
}
