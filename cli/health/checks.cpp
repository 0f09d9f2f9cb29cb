
#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/health/profile.h"
#include "cli/health/run.h"
#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "health/model/check.h"
#include "health/verdict/streaks.h"
#include "scheduler/model/names.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::array<std::string_view, 3> persistence_words{"event", "delta", "samples"};

constexpr std::pair<Phase, char> phase_letters[] = {
    {Phase::prolog, 'P'},     {Phase::periodic, 'T'},  {Phase::epilog, 'E'},
    {Phase::on_failure, 'F'}, {Phase::on_demand, 'D'}, {Phase::qualification, 'Q'}};

constexpr int table_columns = 100;
constexpr const char* legend =
    "MODE      observe: a failure is reported; enforce: it drains the node; off: not run\n"
    "SEVERITY  what a failure leads to; !: it stops the job; a>b: b when it comes again\n"
    "CLASS     whose fault it is: the node's, its setup's, the user's, the infrastructure's\n"
    "PHASES    P before ranks start, T while they run, E after they ended, F when the job failed,\n"
    "          D on demand; a qualification runs all\n"
    "`muster health checks NAME` shows all of one.\n";

std::string letters_of(Phases phases) {
  std::string letters;
  for (const auto& [phase, letter] : phase_letters) {
    if (has(phases, phase) && phase != Phase::qualification) letters += letter;
  }
  return letters;
}

std::vector<std::string> words_of(Phases phases) {
  std::vector<std::string> words;
  for (const auto& [phase, letter] : phase_letters) {
    if (has(phases, phase)) words.emplace_back(name_of(phase));
  }
  return words;
}

std::string number_of(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// "120 1/h, usually 100"
std::string limit_text(const HealthProfile& profile, const CheckSpec& check,
                       const CheckLimit& limit) {
  const auto value = limit_of(profile, check, limit.name);
  std::string text = value ? number_of(*value) : "not set";
  if (!limit.unit.empty()) text += " " + std::string(limit.unit);
  if (limit.usual && value != limit.usual) text += ", usually " + number_of(*limit.usual);
  return text;
}

Document limits_document(const HealthProfile& profile, const CheckSpec& check) {
  return list_of(check.limits, [&](const CheckLimit& limit) {
    return Document{{"name", limit.name},
                    {"unit", limit.unit},
                    {"usual", value_or_null(limit.usual)},
                    {"value", value_or_null(limit_of(profile, check, limit.name))}};
  });
}

std::string_view mode_word(const CheckRules& rules, const CheckSpec& check) {
  return word(mode_of(rules, check.id, {}));
}

void print_table(const Table& table, int widest, const CommonOptions& common) {
  const int screen = is_terminal(Stream::out) ? terminal_width(Stream::out) : widest;
  const int width = widest == 0 ? screen : std::min(screen, widest);
  write_all(Stream::out, table.text(width, wants_color(common.color, Stream::out)));
}

std::string number_text(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "";
}

void print_all(const HealthProfile& profile, const std::string& pattern,
               const CommonOptions& common) {
  const CheckRules rules = rules_of(profile);
  Table table({"CHECK", "MODE", "SEVERITY", "CLASS", "PHASES", "PASSES WHEN"});
  for (const CheckSpec* check : every_check()) {
    if (!fits_pattern(pattern, check->id)) continue;
    table.add({std::string(check->id), std::string(mode_word(rules, *check)),
               text_of(check->severity), std::string(word_of(check->fault)),
               letters_of(check->phases), std::string(check->says)});
  }
  print_table(table, table_columns, common);
  write_all(Stream::out, std::string("\n") + legend);
}

void print_one(const HealthProfile& profile, const CheckSpec& check) {
  const CheckRules rules = rules_of(profile);
  std::string text = std::string(check.id) + "\n";
  const auto line = [&](std::string_view name, const std::string& value) {
    text += "  " + std::string(name) + std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') +
            value + "\n";
  };
  const int samples = bad_samples_needed(rules, check.id);
  line("passes when", std::string(check.says));
  line("source", std::string(check.source));
  line("failure", text_of(check.severity) + ", class " + std::string(word_of(check.fault)));
  line("believed", samples == 1 ? "at once" : "after " + std::to_string(samples) + " in a row");
  line("runs in", joined(words_of(check.phases)));
  line("mode",
       std::string(mode_word(rules, check)) + (is_required(profile, check.id) ? ", required" : ""));
  for (const CheckLimit& limit : check.limits) line(limit.name, limit_text(profile, check, limit));
  write_all(Stream::out, text);
}

Document profiles_document() {
  return list_of(shipped_profiles(), [](const ShippedProfile& shipped) {
    const HealthProfile profile = profile_of(shipped);
    return Document{{"name", shipped.name},
                    {"gpu_name", value_or_null(profile.match_gpu_name)},
                    {"gpus", value_or_null(profile.gpu.count)},
                    {"ports", profile.ib.ports},
                    {"rate_gbps", value_or_null(profile.ib.rate_gbps)}};
  });
}

}  // namespace

Document checks_document(const HealthProfile& profile, const std::string& pattern) {
  const CheckRules rules = rules_of(profile);
  Document all = Document::array();
  for (const CheckSpec* spec : every_check()) {
    const CheckSpec& check = *spec;
    if (!fits_pattern(pattern, check.id)) continue;
    Document one;
    one["id"] = check.id;
    one["source"] = check.source;
    one["criterion"] = check.says;
    one["severity"] = text_of(check.severity);
    one["class"] = word_of(check.fault);
    one["phases"] = words_of(check.phases);
    one["persistence"] = persistence_words.at(static_cast<std::size_t>(check.believe));
    one["cost_us"] = check.cost.count();
    one["mode"] = mode_word(rules, check);
    one["required"] = is_required(profile, check.id);
    one["samples"] = bad_samples_needed(rules, check.id);
    one["limits"] = limits_document(profile, check);
    all.push_back(std::move(one));
  }
  return all;
}

int show_checks(const HealthChecksOptions& options, const CommonOptions& common) {
  const std::string& id = options.name;
  const HealthProfile profile = options.profile.empty()
                                    ? HealthProfile{}
                                    : or_end(named_profile(options.profile, common), invalid_file);
  const std::string pattern = id.empty() ? "*" : id;
  const auto fits = [&](const CheckSpec* check) { return fits_pattern(pattern, check->id); };
  if (std::ranges::none_of(every_check(), fits)) {
    const std::string meant = did_you_mean(id, names_of_checks());
    throw VerbEnd(usage_error,
                  "there is no check '" + id + "'" + (meant.empty() ? "" : "; " + meant));
  }
  if (!wants_table(common)) {
    Document all = checks_document(profile, pattern);
    return print_document(find_check(id) ? all.front() : all, common);
  }
  if (const CheckSpec* check = find_check(id)) {
    print_one(profile, *check);
  } else {
    print_all(profile, pattern, common);
  }
  return 0;
}

int show_profiles(const std::string& name, const CommonOptions& common) {
  if (!name.empty()) {
    if (const ShippedProfile* shipped = find_shipped_profile(name)) {
      write_all(Stream::out, shipped->text);
      return 0;
    }
    throw VerbEnd(usage_error, unknown_profile(name).message);
  }
  if (!wants_table(common)) return print_document(profiles_document(), common);
  Table table({"PROFILE", "GPUS", "GPU", "PORTS", "GBIT/S"});
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const HealthProfile profile = profile_of(shipped);
    table.add({std::string(shipped.name), number_text(profile.gpu.count), profile.match_gpu_name,
               joined(profile.ib.ports, ","), number_text(profile.ib.rate_gbps)});
  }
  print_table(table, 0, common);
  return 0;
}

}  // namespace muster
