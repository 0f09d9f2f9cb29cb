#include "tools/drill/file.h"

#include <algorithm>

#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "templates/parse_file.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/value.h"
#include "tools/drill/keys.h"

namespace muster {

namespace {

constexpr int most_hosts = 256;
constexpr int most_home_mib = 65536;  // it is memory
constexpr std::size_t most_steps = 1000;

DrillStep read_step(const Value& value) {
  DrillStep step;
  step.line = value.node().place.line;
  MapReader map(value);
  if (const Value when = map.take("when"); when.present()) step.when = read_condition(when);
  step.after = read_pause(map.take("after"));
  if (const auto action = read_action(map, value)) step.action = *action;
  map.finish();
  return step;
}

DrillSandbox read_sandbox(const Value& value) {
  DrillSandbox sandbox;
  MapReader map(value);
  sandbox.hosts = map.take("hosts").integer(1, most_hosts).value_or(sandbox.hosts);
  sandbox.private_home = map.take("private_home").boolean().value_or(false);
  sandbox.home_mib = map.take("home_mib").integer(1, most_home_mib);
  map.finish();
  return sandbox;
}

std::optional<NumberTest> read_number_test(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  const auto test = parse_number_test(*text);
  if (!test) {
    value.error("expected a number or a comparison such as '>= 2', got " + quoted_text(*text));
  }
  return test;
}

void read_outputs(const Value& value, DrillExpectations& expect) {
  if (value.is_list()) {
    expect.outputs_equal = true;
    for (const Value& each : value.list()) {
      if (const auto path = each.text()) expect.equal_paths.push_back(*path);
    }
  } else {
    expect.outputs_equal = value.boolean().value_or(false);
  }
}

DrillExpectations read_expectations(const Value& value) {
  DrillExpectations expect;
  MapReader map(value);
  expect.status = map.take("status").word({"Completed", "Failed", "Canceled"});
  expect.exit_code = read_number_test(map.take("exit_code"));
  expect.attempts = read_number_test(map.take("attempts"));
  for (const Value& each : map.take("explain").list_or_one()) {
    if (const auto text = each.text()) expect.explain.push_back(*text);
  }
  expect.no_process_left = map.take("no_process_left").boolean().value_or(false);
  read_outputs(map.take("outputs_equal"), expect);
  const Value counts = map.take("log_counts");
  expect.log_counts = counts.text().value_or("");
  if (counts.present() && expect.log_counts.find("{n}") == std::string::npos) {
    counts.error("expected the text of a line with {n} where it counts, such as 'tick {n}'");
  }
  map.finish();
  return expect;
}

std::optional<std::uint64_t> read_seed(const Value& value) {
  const auto seed = value.integer(0, 2147483647);
  if (!seed) return std::nullopt;
  return static_cast<std::uint64_t>(*seed);
}

// Only a drill's own hosts may be broken without asking anybody.
void check_hosts(const Value& steps, const Drill& drill) {
  const auto needs_sandbox = [](const DrillAction& action) {
    return std::holds_alternative<PartitionHost>(action) ||
           std::holds_alternative<HealHost>(action) || std::holds_alternative<FillDisk>(action) ||
           std::holds_alternative<CrashHost>(action) || std::holds_alternative<BootHost>(action);
  };
  for (std::size_t i = 0; i < drill.steps.size(); ++i) {
    if (drill.sandbox || !needs_sandbox(drill.steps[i].action)) continue;
    steps.item(i).error("this needs hosts that may be broken", "add 'sandbox: {hosts: 3}'");
    return;
  }
}

void read_whole(const Value& value, Drill& drill) {
  MapReader map(value);
  const Value job = map.require("job");
  if (const auto path = job.text()) {
    drill.job = absolute_path(*path, value.node().place.source->directory);
  }
  for (const Value& set : map.take("set").list_or_one()) {
    if (const auto text = set.text()) drill.sets.push_back(*text);
  }
  if (const Value sandbox = map.take("sandbox"); sandbox.present()) {
    drill.sandbox = read_sandbox(sandbox);
  }
  drill.seed = read_seed(map.take("seed"));
  drill.limit = map.take("limit").duration().value_or(drill.limit);
  const Value steps = map.take("steps");
  for (const Value& each : steps.list()) {
    if (drill.steps.size() == most_steps) {
      each.error("more than " + std::to_string(most_steps) + " steps");
      break;
    }
    drill.steps.push_back(read_step(each));
  }
  check_hosts(steps, drill);
  drill.expect = read_expectations(map.require("expect"));
  map.finish();
}

}  // namespace

DrillFile read_drill(const std::string& path, std::string_view text, const ReadOptions& options) {
  DrillFile file;
  FindingList findings;
  if (const auto tree = parse_with_sets(path, text, options, findings)) {
    read_whole(Value(*tree, "", findings), file.drill);
  }
  file.findings = findings.take_sorted();
  return file;
}

}  // namespace muster
