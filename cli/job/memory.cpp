#include "cli/job/memory.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "runtime/estimate/estimate.h"
#include "runtime/estimate/rank_memory.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

std::string gib_text(std::uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
  return printed(gib < 10 ? "%.3f GiB" : "%.1f GiB", gib);
}

// Pretend nodes of this host share its memory.
std::optional<std::uint64_t> available_to_one(const JobSpec& spec, const ComputeTarget& target,
                                              const RankLayout& layout,
                                              std::optional<std::uint64_t> host_bytes) {
  for (const std::string& type : spec.instance_types) {
    if (const auto sku = find_sku(type)) {
      const double bytes = sku->memory_gib * 1024 * 1024 * 1024;
      return static_cast<std::uint64_t>(bytes) / layout.ranks_per_node;
    }
  }
  if (!host_bytes || !is_this_host(target)) return std::nullopt;
  return *host_bytes / layout.ranks;
}

RankLayout layout_of(const JobSpec& spec, std::size_t ranks) {
  RankLayout layout;
  layout.ranks = ranks;
  const auto nodes = static_cast<std::size_t>(std::max(1, spec.instance_count));
  layout.ranks_per_node = (ranks + nodes - 1) / nodes;
  if (!is_elastic(spec)) return layout;
  layout.ranks_per_node =
      static_cast<std::size_t>(std::max(1, spec.distribution.processes_per_node));
  const NodeRange range = node_range(spec);
  layout.ranks = range.most * layout.ranks_per_node;
  layout.least_ranks = range.least * layout.ranks_per_node;
  return layout;
}

constexpr std::string_view trainer = "muster-train";

// One shell word, or the end of a simple command.
struct ShellWord {
  std::string text;
  bool ends_command = false;
};

bool is_operator(char c) {
  return mentions(";&|\n()<>", {&c, 1});
}

// Quotes and backslashes as POSIX has them; a line that ends within quotes ends the word.
std::vector<ShellWord> shell_words(std::string_view line) {
  std::vector<ShellWord> words;
  bool is_open = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const auto put = [&](char letter) {
      if (!is_open) words.emplace_back();
      is_open = true;
      words.back().text += letter;
    };
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (quote == '"' && c == '\\' && i + 1 < line.size()) {
        put(line[++i]);
      } else {
        put(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!is_open) words.emplace_back();
      is_open = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      if (line[++i] != '\n') put(line[i]);
    } else if (is_operator(c)) {
      const bool redirects =
          (c == '<' || c == '>') && is_open && is_made_of(words.back().text, "0123456789");
      if (redirects) words.pop_back();  // "2>"
      is_open = false;
      words.push_back({"", true});
    } else if (c == ' ' || c == '\t') {
      is_open = false;
    } else {
      put(c);
    }
  }
  return words;
}

// "\x01inputs.x\x02" stands for the path of input x on the node.
std::string with_path_of_input(const JobSpec& spec, const std::string& word) {
  constexpr std::string_view begin = "\x01inputs.";
  if (!word.starts_with(begin) || !word.ends_with('\x02')) return word;
  const auto input = spec.inputs.find(word.substr(begin.size(), word.size() - begin.size() - 1));
  return input == spec.inputs.end() ? word : input->second.path;
}

bool is_program(const JobSpec& spec, const std::string& word) {
  const std::string path = with_path_of_input(spec, word);
  const std::size_t slash = path.rfind('/');
  return std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1) == trainer;
}

}  // namespace

std::optional<TrainMemory> train_memory(const JobSpec& spec, const ComputeTarget& target,
                                        std::size_t ranks,
                                        std::optional<std::uint64_t> host_bytes) {
  const auto words = train_words(spec);
  if (!words || ranks == 0) return std::nullopt;
  const RankLayout layout = layout_of(spec, ranks);
  TrainMemory memory;
  memory.available = available_to_one(spec, target, layout, host_bytes);
  const auto needed = run_memory(*words, layout, memory.available);
  if (const auto* impossible = std::get_if<ImpossibleRun>(&needed)) {
    memory.trouble = impossible->why;
    memory.is_impossible = true;
    return memory;
  }
  if (const auto* trouble = std::get_if<std::string>(&needed)) {
    memory.trouble = *trouble;
    return memory;
  }
  const auto& known = std::get<RunMemory>(needed);
  memory.bytes = known.bytes;
  memory.cheapest_change = known.cheapest_change;
  memory.remarks = known.remarks;
  return memory;
}

std::vector<Finding> train_findings(const JobFile& job, const ComputeTarget& target) {
  const JobSpec& spec = job.spec;
  if (spec.distribution.process_per_gpu) return {};
  const auto ranks = rank_map(spec.distribution, std::max(1, spec.instance_count), {}).size();
  const auto memory = train_memory(spec, target, ranks, std::nullopt);
  if (!memory || !memory->is_impossible) return {};
  const std::string key = is_elastic(spec) ? "muster.nodes.max" : "command";
  return {finding_about(job, Severity::error, key,
                        key + ": muster-train cannot run so: " + memory->trouble)};
}

std::string train_memory_text(const TrainMemory& memory) {
  if (!memory.bytes) return "per rank: not known: " + memory.trouble;
  std::string text = "per rank: " + gib_text(*memory.bytes);
  if (!memory.available)
    return text + " (what the nodes have is not known before they are queried)";
  text += " of " + gib_text(*memory.available) + ": ";
  if (!memory.lacks()) return text + "fits";
  text += "does not fit";
  return memory.cheapest_change.empty() ? text : text + "; would with " + memory.cheapest_change;
}

Document train_memory_document(const TrainMemory& memory) {
  Document out;
  out["bytes"] = value_or_null(memory.bytes);
  out["available_bytes"] = value_or_null(memory.available);
  out["fits"] = memory.bytes && memory.available ? Document(!memory.lacks()) : Document(nullptr);
  if (!memory.trouble.empty()) out["trouble"] = memory.trouble;
  if (!memory.cheapest_change.empty()) out["cheapest_change"] = memory.cheapest_change;
  if (!memory.remarks.empty()) out["remarks"] = memory.remarks;
  return out;
}

std::optional<std::vector<std::string>> train_words(const JobSpec& spec) {
  const std::vector<ShellWord> words = shell_words(spec.command);
  auto at = std::ranges::find_if(words, [&](const ShellWord& word) {
    return !word.ends_command && is_program(spec, word.text);
  });
  if (at == words.end()) return std::nullopt;
  std::vector<std::string> options;
  for (++at; at != words.end() && !at->ends_command; ++at) options.push_back(at->text);
  if (!options.empty() && !options.front().starts_with('-')) return std::nullopt;
  return options;
}

}  // namespace muster
