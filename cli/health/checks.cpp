#include "cli/health/checks.h"

#include <array>
#include <nlohmann/json.hpp>

#include "cli/health/profile.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "health/model/check.h"
#include "health/verdict/check_rules.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::array<std::string_view, 3> mode_words{"off", "observe", "enforce"};
constexpr std::array<std::string_view, 3> persistence_words{"event", "delta", "samples"};

struct PhaseWord {
  Phase phase;
  const char* word;
};
constexpr std::array phase_words{
    PhaseWord{Phase::prolog, "prolog"},       PhaseWord{Phase::periodic, "periodic"},
    PhaseWord{Phase::epilog, "epilog"},       PhaseWord{Phase::on_failure, "on-failure"},
    PhaseWord{Phase::on_demand, "on-demand"}, PhaseWord{Phase::qualification, "qualification"}};

template <class Visit>
void for_each_check(Visit visit) {
  for (const auto table : {gpu_checks(), infiniband_checks(), fabric_checks(), host_checks(),
                           kernel_log_checks(), performance_checks()}) {
    for (const CheckSpec& check : table) visit(check);
  }
}

std::string phases_text(Phases phases) {
  std::string text;
  for (const PhaseWord& one : phase_words) {
    if (has(phases, one.phase)) text += (text.empty() ? "" : ",") + std::string(one.word);
  }
  return text;
}

Document phases_document(Phases phases) {
  Document words = Document::array();
  for (const PhaseWord& one : phase_words) {
    if (has(phases, one.phase)) words.push_back(one.word);
  }
  return words;
}

std::string_view mode_word(const CheckRules& rules, const CheckSpec& check) {
  return mode_words.at(static_cast<std::size_t>(mode_of(rules, check.id, {})));
}

int table_width() {
  return is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
}

void print_table(const Table& table, const CommonOptions& common) {
  write_all(Stream::out, table.text(table_width(), wants_color(common.color, Stream::out)));
}

Result<HealthProfile> profile_or_none(const std::string& typed, const CommonOptions& common) {
  if (typed.empty()) return HealthProfile{};
  return named_profile(typed, common);
}

HealthProfile read_shipped(const ShippedProfile& shipped) {
  return read_health_profile(std::string(shipped.name), shipped.text, names_of_checks()).profile;
}

template <class T>
Document or_null(const std::optional<T>& value) {
  return value ? Document(*value) : Document(nullptr);
}

std::string number_text(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "";
}

}  // namespace

Document checks_document(const HealthProfile& profile) {
  const CheckRules rules = rules_of(profile);
  Document all = Document::array();
  for_each_check([&](const CheckSpec& check) {
    Document one;
    one["id"] = check.id;
    one["source"] = check.source;
    one["criterion"] = check.says;
    one["severity"] = text_of(check.severity);
    one["class"] = word_of(check.fault);
    one["phases"] = phases_document(check.phases);
    one["persistence"] = persistence_words.at(static_cast<std::size_t>(check.believe));
    one["cost_us"] = check.cost.count();
    one["mode"] = mode_word(rules, check);
    one["required"] = is_required(profile, check.id);
    one["samples"] = bad_samples_needed(rules, check.id);
    all.push_back(std::move(one));
  });
  return all;
}

int show_checks(const std::string& typed, const CommonOptions& common) {
  const auto profile = profile_or_none(typed, common);
  if (!profile) {
    complain(profile.error().message, common);
    return static_cast<int>(ExitCode::invalid_job);
  }
  if (!wants_table(common)) return print_document(checks_document(*profile), common);
  const CheckRules rules = rules_of(*profile);
  Table table({"CHECK", "MODE", "SEVERITY", "CLASS", "PHASES", "PASSES WHEN", "SOURCE"});
  for_each_check([&](const CheckSpec& check) {
    table.add({std::string(check.id), std::string(mode_word(rules, check)), text_of(check.severity),
               std::string(word_of(check.fault)), phases_text(check.phases),
               std::string(check.says), std::string(check.source)});
  });
  print_table(table, common);
  return 0;
}

Document profiles_document() {
  Document all = Document::array();
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const HealthProfile profile = read_shipped(shipped);
    Document one;
    one["name"] = shipped.name;
    one["gpu_name"] =
        profile.match_gpu_name.empty() ? Document(nullptr) : Document(profile.match_gpu_name);
    one["gpus"] = or_null(profile.gpu.count);
    one["ports"] = profile.ib.ports;
    one["rate_gbps"] = or_null(profile.ib.rate_gbps);
    all.push_back(std::move(one));
  }
  return all;
}

int show_profiles(const std::string& name, const CommonOptions& common) {
  if (!name.empty()) {
    if (const ShippedProfile* shipped = find_shipped_profile(name)) {
      write_all(Stream::out, shipped->text);
      return 0;
    }
    complain(unknown_profile(name).message, common);
    return 2;
  }
  if (!wants_table(common)) return print_document(profiles_document(), common);
  Table table({"PROFILE", "GPUS", "GPU", "PORTS", "GBIT/S"});
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const HealthProfile profile = read_shipped(shipped);
    table.add({std::string(shipped.name), number_text(profile.gpu.count), profile.match_gpu_name,
               joined(profile.ib.ports, ","), number_text(profile.ib.rate_gbps)});
  }
  print_table(table, common);
  return 0;
}

}  // namespace muster
