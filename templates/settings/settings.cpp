// The settings of muster itself: the `muster` map, or `muster.*` strings among the properties. One
// table row for each path (setting_table.h); this file finds the rows' values in both places.
#include <algorithm>
#include <map>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/settings/setting_table.h"
#include "templates/yaml/reader.h"

namespace muster {
namespace {

bool is_group(std::string_view path) {
  const std::string prefix = std::string(path) + '.';
  return std::ranges::any_of(
      setting_table(), [&](const Setting& setting) { return setting.path.starts_with(prefix); });
}

// A setting that goes by the same name elsewhere: `rules` for `restart.rules`.
std::string namesake(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  return last != path && find_setting(last) ? std::string(last) : "";
}

std::vector<std::string> all_paths() {
  std::vector<std::string> out;
  for (const Setting& setting : setting_table()) out.push_back(setting.path);
  for (const Setting& setting : setting_table()) {  // and those that begin some
    const std::string group = setting.path.substr(0, setting.path.find('.'));
    if (group != setting.path && out.back() != group) out.push_back(group);
  }
  return out;
}

class SettingsReader {
 public:
  SettingsReader(Reading& reading, JobSpec& spec) : reading_(reading), spec_(spec) {}

  void read_map(const Value& value, const std::string& prefix) {
    for (const Value& each : MapReader(value).entries()) {
      const std::string path = prefix + each.key();
      if (const Setting* setting = find_setting(path)) {
        apply(*setting, each);
      } else if (is_group(path)) {
        read_map(each, path + '.');
      } else {
        unknown(each, path);
      }
    }
  }

  void read_properties(const Value& value) {
    if (!value.is_map()) return;
    for (const Value& each : MapReader(value).entries()) {
      if (!each.key().starts_with("muster.")) continue;
      const std::string path = each.key().substr(7);
      const Setting* setting = find_setting(path);
      if (!setting) {
        unknown(each, path);
      } else if (each.is_scalar()) {
        apply(*setting, as_value(each, *setting));
      } else {
        each.text();
      }
    }
  }

  bool has(const std::string& path) const { return seen_.contains(path); }

 private:
  void apply(const Setting& setting, const Value& value) {
    if (!value.present()) return;
    const auto [first, added] = seen_.emplace(setting.path, value.path());
    if (added) {
      setting.read(value, spec_);
    } else {
      value.error("already set by " + quoted_text(first->second) + "; keep one of the two");
    }
  }

  // A property's text as the list or map it stands for.
  Value as_value(const Value& text, const Setting& setting) {
    if (setting.shape == SettingShape::scalar) return text;
    const std::string& content = text.node().text;
    const bool structured = content.starts_with('[') || content.starts_with('{');
    if (setting.shape == SettingShape::words && !structured) {
      return Value(reading_.keep(split(text.node())), text.path(), reading_.findings);
    }
    auto source = std::make_shared<Source>(*text.node().place.source);
    source->text = content;
    FindingList quiet;
    std::optional<YamlNode> node = read_yaml(source, quiet);
    if (!node) {
      text.misfit("JSON");
      return text;
    }
    move_to(*node, text.node().place);
    return Value(reading_.keep(std::move(*node)), text.path(), reading_.findings);
  }

  static YamlNode split(const YamlNode& text) {
    YamlNode list{YamlNode::Kind::list, text.place, "", false, {}, {}};
    for (const std::string_view each : words_in(text.text, ",")) {
      const std::string part(trimmed(each));
      if (!part.empty()) list.items.push_back(scalar_node(part, text.place, true));
    }
    return list;
  }

  static void move_to(YamlNode& node, const Place& place) {
    node.place = place;
    for (YamlNode& item : node.items) move_to(item, place);
    for (Entry& entry : node.entries) {
      entry.place = place;
      move_to(entry.value, place);
    }
  }

  void unknown(const Value& value, const std::string& path) {
    const bool shown = !reading_.findings.full();
    std::string found = shown ? nearest(path, all_paths()) : "";
    if (found.empty()) found = namesake(path);
    reading_.findings.add(Severity::error, value.key_place(), value.path(),
                          "unknown setting " + quoted_text("muster." + path),
                          found.empty() ? "" : "did you mean 'muster." + found + "'?");
  }

  Reading& reading_;
  JobSpec& spec_;
  std::map<std::string, std::string> seen_;  // setting -> the key path that set it
};

// A setting where it is written, in the map or among the properties.
Value written(const std::string& path, const Value& muster, const Value& properties,
              FindingList& findings) {
  const YamlNode* in_map = muster.is_map() ? muster.node().find_path(path) : nullptr;
  const std::string name = "muster." + path;
  return Value(in_map ? *in_map : *properties.node().find(name), name, findings);
}

// With a number of GPUs the number of processes is known, and nothing is left to count.
void settle_processes(const Value& muster, const Value& properties, Reading& reading,
                      JobSpec& spec) {
  Distribution& distribution = spec.distribution;
  const std::optional<int> gpus = spec.muster.nodes_gpus;
  if (!distribution.process_per_gpu || !gpus) return;
  distribution.process_per_gpu = false;
  distribution.processes_per_node = std::max(1, *gpus);
  if (*gpus > 0) return;
  written("processes_per_node", muster, properties, reading.findings)
      .error("'gpus' needs a GPU, and muster.nodes.gpus is 0");
}

// A rank that stands at a breakpoint is for whoever looks from outside one that hangs.
void settle_debug(const Value& written_as, JobSpec& spec) {
  auto& kept = spec.muster.other;
  kept.emplace("debug.rank", "0");
  kept.emplace("debug.wait", "10m");
  spec.muster.hang.off = true;
  written_as.warning(
      "while rank " + kept["debug.rank"] +
      " waits, every user of its node can attach: debugpy asks for no password. Hangs of this job "
      "are not looked for");
  const Distribution& distribution = spec.distribution;
  const bool is_counted =
      !distribution.process_per_gpu && distribution.type != DistributionType::tensorflow;
  const int nodes = std::max(spec.instance_count, spec.muster.nodes_max);
  const std::int64_t ranks = std::int64_t{nodes} * distribution.processes_per_node;
  if (!is_counted || std::stoll(kept["debug.rank"]) < ranks) return;
  written_as.error("the job has " + std::to_string(ranks) + " ranks, counted from 0");
}

}  // namespace

const Setting* find_setting(std::string_view path) {
  const auto& table = setting_table();
  const auto found = std::ranges::find(table, path, &Setting::path);
  return found == table.end() ? nullptr : &*found;
}

void read_settings(const Value& muster, const Value& properties, Reading& reading, JobSpec& spec) {
  SettingsReader reader(reading, spec);
  reader.read_map(muster, "");
  reader.read_properties(properties);
  settle_processes(muster, properties, reading, spec);
  const DistributionType type = spec.distribution.type;
  const bool is_counted = type == DistributionType::pytorch || type == DistributionType::mpi;
  if (reader.has("processes_per_node") && !is_counted && !spec.muster.remote_start) {
    written("processes_per_node", muster, properties, reading.findings)
        .warning("has no effect without distribution.type pytorch or mpi, or remote_start");
  }
  const HangSettings& hang = spec.muster.hang;
  if (hang.watch == HangWatch::output && !hang.timeout && !hang.off) {
    written("hang.watch", muster, properties, reading.findings)
        .error("'output' needs an explicit muster.hang.timeout");
  }
  for (const char* path : {"debug.rank", "debug.wait"}) {
    if (!reader.has(path)) continue;
    settle_debug(written(path, muster, properties, reading.findings), spec);
    break;
  }
  spec.muster.restart.max_delay =
      std::max(spec.muster.restart.max_delay, spec.muster.restart.delay);
}

}  // namespace muster
