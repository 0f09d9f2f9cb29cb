// `command`: expands the expressions. What the shell expands is left to the shell on the rank.
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/job/expression.h"
#include "templates/yaml/reader.h"

namespace muster {
namespace {

// Where the expression stands inside a command of several lines, as far as the file says it
// plainly.
Place place_inside(const Value& value, const std::string& raw) {
  const Place& place = value.node().place;
  if (!place.source || place.line == 0) return place;
  const std::string& text = place.source->text;
  const char* line = line_of(text, place.line).data();
  const std::size_t at = line == nullptr ? text.npos : text.find(raw, line - text.data());
  return at == text.npos ? place : place_of(place.source, at);
}

constexpr std::size_t most_listed = 8;  // in one line

class CommandExpander {
 public:
  CommandExpander(const Value& value, const std::set<std::string>* trial_names, const JobSpec& spec)
      : value_(value), trial_names_(trial_names), spec_(spec) {}

  std::optional<std::string> value_of(const std::string& name) const {
    if (name.starts_with("inputs.")) return input(name.substr(7));
    if (name.starts_with("outputs.")) return output(name.substr(8));
    if (trial_names_ && name.starts_with("search_space.")) return trial(name);
    report(Severity::error, name, "unknown expression");
    return std::nullopt;
  }

 private:
  std::optional<std::string> input(const std::string& name) const {
    const auto found = spec_.inputs.find(name);
    if (found == spec_.inputs.end()) {
      report(Severity::error, "inputs." + name, "there is no such input");
      return std::nullopt;
    }
    const InputSpec& input = found->second;
    if (input.is_literal) return input.literal;
    if (input.path_kind == PathKind::none) {
      report(Severity::unresolved, "inputs." + name, "the input has no value");
      return std::nullopt;
    }
    const bool is_uri = input.mode == InputMode::direct && input.path_kind != PathKind::local;
    return is_uri ? input.path : "\x01inputs." + name + '\x02';
  }

  std::optional<std::string> output(const std::string& name) const {
    const auto found = spec_.outputs.find(name);
    if (found == spec_.outputs.end()) {
      report(Severity::error, "outputs." + name, "there is no such output");
      return std::nullopt;
    }
    const OutputSpec& output = found->second;
    const bool is_uri = output.mode == OutputMode::direct && output.path_kind != PathKind::none &&
                        output.path_kind != PathKind::local;
    return is_uri ? output.path : "\x01outputs." + name + '\x02';
  }

  std::optional<std::string> trial(const std::string& name) const {
    const std::string key = name.substr(13);
    if (!trial_names_->count(key)) {
      report(Severity::error, name, "there is no such parameter in 'search_space'");
    }
    return std::nullopt;
  }

  // "there are: a, b": of the group that the name is in, where they are few.
  std::string known_of(const std::string& name) const {
    std::vector<std::string> names;
    if (name.starts_with("inputs.")) {
      for (const auto& [key, input] : spec_.inputs) names.push_back(key);
    } else if (name.starts_with("outputs.")) {
      for (const auto& [key, output] : spec_.outputs) names.push_back(key);
    }
    return names.empty() || names.size() > most_listed ? "" : "there are: " + joined(names);
  }

  std::string suggestion(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto& [key, input] : spec_.inputs) known.push_back("inputs." + key);
    for (const auto& [key, output] : spec_.outputs) known.push_back("outputs." + key);
    if (trial_names_) {
      for (const std::string& key : *trial_names_) known.push_back("search_space." + key);
    }
    const std::string found = nearest(name, known);
    return found.empty() ? known_of(name) : "did you mean '${{" + found + "}}'?";
  }

  void report(Severity severity, const std::string& name, const std::string& message) const {
    if (value_.findings().full()) {
      value_.report(severity, message);
      return;
    }
    const bool wrong_name = severity == Severity::error;
    value_.findings().add(severity, place_inside(value_, name), value_.path(),
                          value_.path() + ": " + quoted_text("${{" + name + "}}") + ": " + message,
                          wrong_name ? suggestion(name) : "");
  }

  const Value& value_;
  const std::set<std::string>* trial_names_;
  const JobSpec& spec_;
};

}  // namespace

std::optional<std::string> command_text(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  std::vector<std::string> names;
  std::string whole = with_whole_braces(*text, names);
  if (!names.empty()) {
    value.warning(quoted_text('{' + names.front() + '}') + " is read as " +
                  quoted_text("${{" + names.front() + "}}") + ", as Azure ML does; write that");
  }
  return whole;
}

void read_command(const Value& value, const std::set<std::string>* trial_names, JobSpec& spec) {
  const auto text = command_text(value);
  if (!text) return;
  if (text->find_first_not_of(" \t\n") == std::string::npos) value.error("the command is empty");
  if (find_expressions(*text).unclosed) value.error("'${{' without '}}'");
  if (!optional_groups(*text).empty()) {
    value.warning("'$[[ ]]' belongs to components; here the shell gets it as it is");
  }
  const CommandExpander expander(value, trial_names, spec);
  spec.command = expand(*text, [&](const std::string& name) { return expander.value_of(name); });
  if (spec.command.size() > max_expanded_text) {
    value.error("longer than 128 KiB, the most that one argument can be; put it in a script");
    spec.command.clear();
  }
}

}  // namespace muster
