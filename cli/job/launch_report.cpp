#include "cli/job/launch_report.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// A screen has room for these; all are in the JSON report and in the trace.
constexpr std::size_t nodes_shown = 5;

double ms_of(std::int64_t us) {
  return static_cast<double>(us) / 1000;
}

std::string ms_text(std::int64_t us) {
  return printed(us < 10'000 ? "%.1f ms" : "%.0f ms", ms_of(us));
}

std::int64_t begun_us(const LaunchProfile& profile) {
  std::int64_t first = 0;
  for (const NodeLaunch& node : profile.nodes) {
    for (const LaunchPhase& phase : node.phases) first = std::min(first, phase.begun_us);
  }
  return first;
}

Document slowest_document(const LaunchProfile& profile) {
  const auto slowest = slowest_node(profile);
  if (!slowest) return nullptr;
  return Document{{"node", slowest->node.value},
                  {"ms", ms_of(slowest->took_us)},
                  {"phase", slowest->phase.name},
                  {"phase_ms", ms_of(slowest->phase.took_us)},
                  {"sentence", slowest->sentence}};
}

Document host_document(const NodeLaunch& node) {
  Document out;
  out["node"] = node.node.value;
  out["ms"] = ms_of(node.took_us());
  out["kept_connection"] = node.kept_connection;
  out["methods"] = value_or_null(node.methods);
  out["through"] = value_or_null(node.through);
  out["phases"] = Document::object();
  for (const LaunchPhase& phase : node.phases) out["phases"][phase.name] = ms_of(phase.took_us);
  return out;
}

const NodeLaunch& slowest_in(const LaunchProfile& profile, const std::string& phase) {
  return *std::max_element(
      profile.nodes.begin(), profile.nodes.end(),
      [&](const auto& a, const auto& b) { return a.took_us(phase) < b.took_us(phase); });
}

Table phases_table(const LaunchProfile& profile) {
  Table table({"PHASE", "MEDIAN", "P99", "SLOWEST", "NODE"});
  for (const std::string& phase : launch_phase_names(profile)) {
    const NodeLaunch& slowest = slowest_in(profile, phase);
    table.add({phase, ms_text(quantile_us(profile, phase, 0.5)),
               ms_text(quantile_us(profile, phase, 0.99)), ms_text(slowest.took_us(phase)),
               slowest.node.value});
  }
  return table;
}

Table nodes_table(const LaunchProfile& profile) {
  std::vector<const NodeLaunch*> nodes;
  for (const NodeLaunch& node : profile.nodes) nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto* a, const auto* b) { return a->took_us() > b->took_us(); });
  nodes.resize(std::min(nodes.size(), nodes_shown));
  Table table({"SLOWEST NODES", "TOOK", "PHASES"});
  for (const NodeLaunch* node : nodes) {
    std::string told = node->kept_connection ? "kept its connection" : "";
    for (const LaunchPhase& phase : node->phases) {
      told += (told.empty() ? "" : ", ") + phase.name + " " + ms_text(phase.took_us);
    }
    table.add({node->node.value, ms_text(node->took_us()), told});
  }
  return table;
}

Document event(const char* kind, const std::string& name, std::size_t row) {
  return Document{{"name", name}, {"ph", kind}, {"pid", 1}, {"tid", row}};
}

Document label(const char* what, const std::string& text, std::size_t row) {
  Document out = event("M", what, row);
  out["args"] = Document{{"name", text}};
  return out;
}

// What the option's value is when none is given.
constexpr const char* without_file = "true";

}  // namespace

Document launch_document(const std::optional<LaunchProfile>& profile) {
  if (!profile) return nullptr;
  return Document{{"attempt", profile->attempt.value},
                  {"slowest", slowest_document(*profile)},
                  {"hosts", list_of(profile->nodes, host_document)}};
}

std::string launch_text(const LaunchProfile& profile, int width, bool color) {
  const auto slowest = slowest_node(profile);
  std::string text = "launch of attempt " + std::to_string(profile.attempt.value) + "; ";
  text += slowest ? "slowest: " + slowest->sentence + "\n" : "nothing is known of its nodes yet\n";
  if (!slowest) return text;
  return text + phases_table(profile).text(width, color) + "\n" +
         nodes_table(profile).text(width, color);
}

Document chrome_trace(const std::string& job, const LaunchProfile& profile) {
  Document events = Document::array();
  events.push_back(label("process_name", "launch of " + job, 0));
  const std::int64_t begun = begun_us(profile);
  for (std::size_t row = 0; row < profile.nodes.size(); ++row) {
    const NodeLaunch& node = profile.nodes[row];
    events.push_back(label("thread_name", node.node.value, row));
    for (const LaunchPhase& phase : node.phases) {
      Document one = event("X", phase.name, row);
      one["ts"] = phase.begun_us - begun;
      one["dur"] = phase.took_us;
      events.push_back(std::move(one));
    }
  }
  return Document{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

void add_profile_option(Arguments& of, std::string& value) {
  of.flag("--profile", value,
          "Show where the time of the launch went, and write its trace (--profile=FILE; else "
          "JOB-launch-trace.json) for chrome://tracing");
}

int report_launch(const FoundJob& found, const std::string& value, const CommonOptions& common) {
  if (value.empty()) return 0;
  const auto history = history_of(found);
  if (!history) return print_error(history.error().message, internal_error, common);
  const auto profile = launch_profile(history->records, history->links);
  if (!profile) {
    notice("job " + found.row.name + " has not been allocated any node yet: there is no launch " +
               "to report",
           common);
    return 0;
  }
  const int width = is_terminal(Stream::err) ? terminal_width(Stream::err) : 0;
  write_all(Stream::err, launch_text(*profile, width, wants_color(common.color, Stream::err)));
  const std::string path = value == without_file ? found.row.name + "-launch-trace.json" : value;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << chrome_trace(found.row.name, *profile).dump() << "\n";
  file.close();
  if (!file) {
    return print_error(
        "cannot write the trace to " + path + ": name another file with --profile=FILE",
        internal_error, common);
  }
  notice("trace of the launch: " + path, common);
  return 0;
}

}  // namespace muster
