// How long all passive checks of a node take, and what a source that hangs does to them: the
// agent's helper and limits, without the agent around them. Part of health_bench.
#include <chrono>
#include <cmath>
#include <map>
#include <variant>

#include "health/monitor/check_run.h"
#include "health/monitor/node_monitor.h"
#include "health/read/node_reader.h"
#include "launcher/os/clocks.h"
#include "tests/catch.h"
#include "tests/launcher/agent/bench/bench_figures.h"
#include "tests/launcher/agent/healthy_node.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;

namespace {

// An agent's.
constexpr NodeReaderLimits limits{milliseconds{2000}, milliseconds{5000}, milliseconds{8000}};
constexpr int runs = 20;

CheckMoment moment_now() {
  return {std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now()), raw_time()};
}

NodeReader::Options reader_options() {
  NodeReader::Options options;
  options.helper = {agent_program(), "agent", "read-health"};
  options.limits = limits;
  return options;
}

using Said = std::map<std::pair<std::string, std::string>, CheckStatus>;

struct Checked {
  Said said;  // by check and device
  double took_ms = 0;
};

// All checks that a person who asks gets, but those that take several looks.
class Checks {
 public:
  explicit Checks(const HealthyNode& node) : monitor_(HealthyNode::profile(), options_of(node)) {
    monitor_.begin("boot", moment_now());
    run();  // counters have nothing to compare with
  }

  Checked run() {
    CheckSituation situation;
    situation.phase = Phase::on_demand;
    situation.helper = reader_.facts();
    situation.may_pause = false;
    const auto begun = std::chrono::steady_clock::now();
    CheckRun run(monitor_, situation);
    for (RunStep step = run.next(); !std::holds_alternative<RunOver>(step); step = run.next())
      run.read(read_node(reader_, std::get<ReadNext>(step).request), moment_now());
    Checked checked;
    checked.took_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
    for (const HealthFinding& one : run.findings())
      checked.said[{one.check, one.device}] = one.status;
    return checked;
  }

 private:
  static MonitorOptions options_of(const HealthyNode& node) {
    MonitorOptions options;
    options.root = node.root();
    return options;
  }

  NodeMonitor monitor_;
  NodeReader reader_{reader_options()};
};

int count(const Said& said, CheckStatus status) {
  return static_cast<int>(
      std::ranges::count_if(said, [&](const auto& one) { return one.second == status; }));
}

// Checks that say something else than on the healthy node, though they have nothing to do with the
// source that hangs.
template <class Concerns>
int changed(const Said& healthy, const Said& hung, const Concerns& is_of_source) {
  return static_cast<int>(std::ranges::count_if(healthy, [&](const auto& one) {
    if (is_of_source(one.first)) return false;
    const auto now = hung.find(one.first);
    const bool is_same = now != hung.end() && now->second == one.second;
    if (!is_same) UNSCOPED_INFO(one.first.first << " on " << one.first.second);
    return !is_same;
  }));
}

// What the run took beside the time of one that did not wait, and the deadline: the end of the
// helper and the start of the next one are part of it.
double error_ms(const Checked& hung, const Checked& other, milliseconds deadline) {
  return std::abs(hung.took_ms - other.took_ms - static_cast<double>(deadline.count()));
}

}  // namespace

TEST_CASE("all passive checks of a node") {
  HealthyNode node;
  Samples cold;
  Samples took;
  Said said;
  for (int i = 0; i < runs; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    Checks checks(node);
    cold.add(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun)
                 .count());
    const Checked checked = checks.run();
    took.add(checked.took_ms);
    said = checked.said;
  }
  took.print("passive_run", "ms", "<=500");
  cold.print("passive_run_with_start_of_helper", "ms", "<=500");
  print_figure("passive_run_findings", static_cast<double>(said.size()), "findings", "-");
  print_figure("passive_run_not_passed",
               static_cast<double>(said.size()) - count(said, CheckStatus::pass), "findings",
               "<=0");
  for (const auto& [name, status] : said) {
    if (status != CheckStatus::pass)
      WARN(name.first << " on " << name.second << " is " << word_of(status));
  }
}

TEST_CASE("a file that does not answer") {
  HealthyNode node;
  Checks checks(node);
  const Checked healthy = checks.run();
  Samples error;
  int unknown = 0;
  int others = 0;
  constexpr int hung_ports[] = {0, 3, 7};
  for (const int port : hung_ports) {
    const std::string name = HealthyNode::port(port);
    node.hang_state(port);
    const Checked hung = checks.run();
    node.heal();
    error.add(error_ms(hung, healthy, limits.source));
    const auto state = hung.said.find({"ib.state", name});
    if (state != hung.said.end() && state->second == CheckStatus::unknown) ++unknown;
    others +=
        changed(healthy.said, hung.said, [&](const auto& check) { return check.second == name; });
  }
  error.print("hung_file_deadline_error", "ms", "<=100");
  print_figure("hung_file_is_unknown", unknown, "of_3", ">=3");
  print_figure("hung_file_other_checks_changed", others, "checks", "<=0");
  CHECK(others == 0);
}

// One library asks for all GPUs: what it was not queried before the call hung is unknown too.
TEST_CASE("a call of the driver that does not answer") {
  HealthyNode node;
  Checks checks(node);
  const Checked healthy = checks.run();
  Samples error;
  Samples unknown;
  int others = 0;
  for (const char* call : {"gpu3.nvmlDeviceGetSerial", "nvmlDeviceGetCount"}) {
    // Ends at the same call.
    node.crash_call(call);
    const Checked crashed = checks.run();
    node.heal();
    node.hang_call(call);
    const Checked hung = checks.run();
    node.heal();
    error.add(error_ms(hung, crashed, limits.gpu_call));
    const auto is_of_driver = [](const auto& check) { return check.first.starts_with("gpu."); };
    others += changed(healthy.said, hung.said, is_of_driver);
    unknown.add(count(hung.said, CheckStatus::unknown));
  }
  error.print("hung_call_deadline_error", "ms", "<=100");
  print_figure("hung_call_checks_unknown", unknown.least(), "checks", ">=1");
  print_figure("hung_call_other_checks_changed", others, "checks", "<=0");
  CHECK(others == 0);
}
