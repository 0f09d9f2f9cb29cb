#include "templates/yaml/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "scheduler/text/duration.h"

namespace muster {

namespace {

// A key, or the map that keys belong under, and the words for it.
struct Keys {
  std::string_view key;
  std::string_view words;
};

// Words from other launchers and schedulers.
constexpr Keys synonyms[] = {
    {"path", "paths uri url"},
    {"image", "img"},
    {"resources.instance_count", "nodes num_nodes node_count nnodes"},
    {"muster.nodes.gpus", "gpus gpu_count"},
    {"distribution.process_count_per_instance", "process_count_per_node nproc_per_node"},
    {"muster.processes_per_node", "processes_per_node"},
    {"environment_variables", "env envs environment_vars"},
    {"command", "cmd run script entrypoint"},
    {"code", "source_directory workdir"},
    {"compute", "target cluster"},
    {"limits.timeout", "time_limit walltime"},
    {"muster.restart.attempts", "max_restarts retries"},
    {"experiment_name", "experiment"},
    {"tags", "labels"},
    {"nodes", "hosts"}};

constexpr Keys homes[] = {
    {"resources", "instance_count instance_type max_instance_count shm_size docker_args"},
    {"distribution", "process_count_per_instance worker_count parameter_server_count"},
    {"limits", "timeout max_total_trials max_concurrent_trials trial_timeout"},
    {"queue_settings", "job_tier priority"},
    {"environment", "image conda_file build"},
    {"objective", "primary_metric goal"},
    {"settings", "default_compute default_datastore continue_on_step_failure force_rerun"},
    {"muster", "restart reschedule checkpoint resume health placement hang"}};

template <std::size_t n>
std::string_view look_up(const Keys (&table)[n], std::string_view word) {
  const auto has_it = [folded_word = folded(word)](const Keys& keys) {
    return std::ranges::count(words_in(keys.words), folded_word) > 0;
  };
  const auto* found = std::ranges::find_if(table, has_it);
  return found == std::end(table) ? std::string_view() : found->key;
}

// `resources.instance_count` fits below the top level only; `path` only where it is legal.
bool fits(std::string_view synonym, const std::vector<std::string>& legal_here) {
  const std::string_view head = synonym.substr(0, synonym.find('.'));
  return std::ranges::count(legal_here, head) > 0;
}

bool is_placeholder(std::string_view text) {
  const auto wrapped = [&](std::string_view open, std::string_view close) {
    return text.size() > open.size() + close.size() && text.starts_with(open) &&
           text.ends_with(close);
  };
  const bool one_angle = wrapped("<", ">") && text.find('<', 1) == std::string_view::npos;
  const bool one_brace = wrapped("{{", "}}") && text.find("{{", 2) == std::string_view::npos;
  return one_angle || one_brace;
}

// What to write instead of an unknown key: another word for a key legal here, a key that belongs
// under another map than `here`, a near miss of a key legal here; empty if nothing fits.
std::string suggest_key(std::string_view key, const std::vector<std::string>& legal_here,
                        std::string_view here) {
  std::string_view synonym = look_up(synonyms, key);
  const std::string own = std::string(here) + '.';
  if (!here.empty() && synonym.starts_with(own)) synonym.remove_prefix(own.size());
  if (!synonym.empty() && fits(synonym, legal_here)) {
    return "did you mean " + quoted_text(synonym) + "?";
  }
  const std::string_view home = look_up(homes, key);
  if (!home.empty() && !here.ends_with(home)) return "it belongs under " + quoted_text(home);
  return did_you_mean(key, legal_here);
}

// ---- what Azure ML makes of a value without quotes

constexpr std::string_view decimals = "0123456789_";

std::string without_underscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

std::optional<long long> digits(std::string_view text, int base) {
  const std::string plain = without_underscores(text);
  long long value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (error != std::errc{} || end != plain.data() + plain.size()) return std::nullopt;
  return value;
}

// `12:30:45`, to the base of sixty.
std::optional<long long> sexagesimal(std::string_view text) {
  if (text.find(':') == text.npos || text.front() == '0') return std::nullopt;
  long long total = 0;
  for (bool first = true; !text.empty(); first = false) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view part = text.substr(0, colon);
    if (!is_made_of(part, decimals) || part.size() > 9 || total > 1'000'000'000) return {};
    const auto value = digits(part, 10);
    if (!value || (!first && (part.size() > 2 || *value > 59))) return std::nullopt;
    total = total * 60 + *value;
    if (colon + 1 == text.size()) return std::nullopt;
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return total;
}

// A whole number in any of the forms, without its sign.
std::optional<long long> integer_of(std::string_view text) {
  if (text.starts_with("0x")) return digits(text.substr(2), 16);
  if (text.starts_with("0b")) return digits(text.substr(2), 2);
  if (const auto octal = octal_number(text)) return octal;
  const bool plain =
      text == "0" || (is_made_of(text, decimals) && text.front() != '0' && text.front() != '_');
  return plain ? digits(text, 10) : sexagesimal(text);
}

// A number with a point; an exponent has a sign there.
std::optional<double> fraction_of(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == text.npos) return std::nullopt;
  const std::size_t exponent = std::min(text.find_first_of("eE"), text.size());
  const std::string_view power = text.substr(exponent);
  const bool bare = power.empty() || (power.size() > 2 && (power[1] == '+' || power[1] == '-'));
  if (exponent < point || !bare) return std::nullopt;
  if (text.find_first_of("0123456789") >= exponent) return std::nullopt;
  return real_number(without_underscores(text));
}

// As Python prints it: with a point, and an exponent only where the number is very long.
std::string python_text(double value) {
  char out[64];
  const double size = std::abs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(out, out + sizeof out, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(out, end.ptr);
  if (fixed && text.find('.') == text.npos) text += ".0";
  return text;
}

// `2024-01-05`, and with a time behind it.
bool is_date(std::string_view text) {
  const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  if (text.size() < 8 || text[4] != '-' || !digit(0) || !digit(1) || !digit(2) || !digit(3)) {
    return false;
  }
  const std::size_t dash = text.find('-', 5);
  if (dash == text.npos || dash == 5 || dash > 7) return false;
  std::size_t end = dash + 1;
  while (end < text.size() && end < dash + 3 && digit(end)) ++end;
  const bool alone = end == text.size() || text[end] == 'T' || text[end] == 't' || text[end] == ' ';
  return digit(5) && digit(dash - 1) && end > dash + 1 && alone;
}

}  // namespace

void Value::report(Severity severity, const std::string& message, std::string suggestion) const {
  const std::string prefix = path_.empty() ? "" : path_ + ": ";
  findings_->add(severity, node_->place, path_, prefix + message, std::move(suggestion));
}

bool Value::is_to_be_replaced(std::string_view text, std::string_view by_what) const {
  const bool is_open = is_placeholder(text);
  if (is_open) {
    unresolved(quoted_text(text) + ": replace the placeholder" + (by_what.empty() ? "" : " by ") +
               std::string(by_what));
  }
  return is_open;
}

Value Value::item(std::size_t index) const {
  return Value(node_->items[index], path_ + '[' + std::to_string(index) + ']', *findings_);
}

Value Value::entry(const Entry& entry) const {
  Value value(entry.value, path_.empty() ? entry.key : path_ + '.' + entry.key, *findings_);
  value.entry_ = &entry;
  return value;
}

std::nullopt_t Value::misfit(const std::string& expected, std::string suggestion) const {
  error("expected " + expected + ", got " + describe(*node_), std::move(suggestion));
  return std::nullopt;
}

bool Value::expect_scalar(const std::string& expected) const {
  if (present() && !is_scalar()) misfit(expected);
  return is_scalar();
}

// `010` is eight for Azure ML and ten for a reader; in quotes it is ten for both.
bool Value::expect_one_reading(const std::string& expected) const {
  const auto octal = node_->quoted ? std::nullopt : octal_number(node_->text);
  const auto decimal = whole_number(node_->text);
  if (!octal || octal == decimal) return true;
  misfit(expected + " without a leading 0",
         decimal ? "write " + std::to_string(*octal) + " or " + std::to_string(*decimal) : "");
  return false;
}

std::optional<std::string> Value::text() const {
  return expect_scalar("text") ? std::optional(node_->text) : std::nullopt;
}

std::optional<int> Value::integer(int lowest, int highest) const {
  if (!expect_scalar("an integer") || !expect_one_reading("an integer")) return std::nullopt;
  const auto value = whole_number(node_->text);
  const bool is_power = value && node_->text.find_first_of("eE") != std::string::npos;
  if (!value || is_power) {
    return misfit("an integer", is_power ? "write " + std::to_string(*value) : "");
  }
  if (*value >= lowest && *value <= highest) return static_cast<int>(*value);
  const bool is_low = *value < lowest;
  error((is_low ? "expected " + std::to_string(lowest) + " or more"
                : "expected at most " + std::to_string(highest)) +
        ", got " + std::to_string(*value));
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (!expect_scalar("a number") || !expect_one_reading("a number")) return std::nullopt;
  const auto value = real_number(node_->text);
  if (!value) misfit("a number");
  return value;
}

std::optional<bool> Value::boolean() const {
  if (!expect_scalar("true or false")) return std::nullopt;
  const auto value = boolean_word(node_->text);
  if (!value) misfit("true or false");
  return value;
}

std::optional<Milliseconds> Value::duration() const {
  if (!expect_scalar("a duration") || !expect_one_reading("a duration")) return std::nullopt;
  const auto value = parse_duration(node_->text);
  if (!value) misfit("a duration in seconds or such as 1h30m");
  return value;
}

std::vector<Value> Value::list() const {
  std::vector<Value> out;
  if (present() && !is_list()) misfit("a list");
  for (std::size_t i = 0; is_list() && i < node_->items.size(); ++i) out.push_back(item(i));
  return out;
}

std::vector<Value> Value::list_or_one() const {
  return is_scalar() ? std::vector<Value>{*this} : list();
}

std::vector<std::string> Value::texts() const {
  std::vector<std::string> out;
  for (const Value& each : list_or_one()) {
    if (const auto text = each.text()) out.push_back(*text);
  }
  return out;
}

std::map<std::string, std::string> Value::text_map() const {
  std::map<std::string, std::string> out;
  MapReader map(*this);
  for (const Value& each : map.entries()) {
    if (each.is_null()) {
      out[each.key()] = "";
    } else if (const auto text = each.text()) {
      out[each.key()] = *text;
    }
  }
  return out;
}

std::string Value::suggest_word(const std::vector<std::string>& names) const {
  const std::string close = suggest(node_->text, names);
  const std::string end = '_' + folded(node_->text);
  const auto longer = std::ranges::find_if(names, [&](auto& name) { return name.ends_with(end); });
  if (!close.empty() || longer == names.end()) return close;
  return "did you mean " + quoted_text(*longer) + "?";
}

std::optional<int> Value::word_index(const std::vector<std::string>& names) const {
  if (!expect_scalar("one of " + enumerated(names, " or "))) return std::nullopt;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (folded(names[i]) == folded(node_->text)) return static_cast<int>(i);
  }
  return misfit(enumerated(names, " or "), suggest_word(names));
}

std::optional<std::string> Value::word(const std::vector<std::string>& words) const {
  const auto index = word_index(words);
  return index ? std::optional(words[static_cast<std::size_t>(*index)]) : std::nullopt;
}

bool note_other_reading(const Value& value) {
  if (!value.is_scalar() || value.node().quoted) return false;
  const auto reading = other_in_azure(value.node().text);
  if (reading) value.note(*reading + "; quote it");
  return reading.has_value();
}

void note_null_word(const Value& value) {
  if (!value.is_null() || value.node().text.empty()) return;
  value.note(quoted_text(value.node().text) + " is no value, not text; quote it if text is meant");
}

std::optional<bool> boolean_word(std::string_view text) {
  const std::string word = folded(text);
  if (word == "true" || word == "yes" || word == "on" || word == "y") return true;
  if (word == "false" || word == "no" || word == "off" || word == "n") return false;
  return std::nullopt;
}

std::optional<double> real_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<long long> whole_number(std::string_view text) {
  const auto value = real_number(text);
  constexpr double exact = 9007199254740992.0;  // 2^53: every whole double below it is exact
  if (!value || std::floor(*value) != *value || std::abs(*value) > exact) return std::nullopt;
  return static_cast<long long>(*value);
}

MapReader::MapReader(const Value& map) {
  if (map.is_map()) {
    map_ = map;
  } else if (map.present()) {
    map.misfit("a map");
  }
}

Value MapReader::take(std::string_view key) {
  known_.emplace_back(key);
  if (!map_.given()) return {};
  const auto& entries = map_.node().entries;
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? Value() : map_.entry(*found);
}

Value MapReader::require(std::string_view key) {
  Value value = take(key);
  if (value.present() || !map_.given()) return value;
  const Value& where = value.given() ? value : map_;
  const std::string path =
      map_.path().empty() ? std::string(key) : map_.path() + '.' + std::string(key);
  where.findings().add(Severity::error, where.node().place, path,
                       quoted_text(path) + (value.given() ? " has no value" : " is required"));
  return value;
}

void MapReader::ignore(std::initializer_list<const char*> keys, const char* why) {
  for (const char* key : keys) {
    const Value value = take(key);
    if (value.given()) value.note(why);
  }
}

std::vector<Value> MapReader::entries() const {
  std::vector<Value> out;
  if (!map_.given()) return out;
  for (const Entry& entry : map_.node().entries) out.push_back(map_.entry(entry));
  return out;
}

void MapReader::finish(Severity severity) {
  for (const Value& each : entries()) {
    if (std::ranges::count(known_, each.key()) > 0) continue;
    std::string message = "unknown key " + quoted_text(each.key());
    if (!map_.path().empty()) message += " in " + quoted_text(map_.path());
    const bool shown = !map_.findings().full();
    map_.findings().add(severity, each.key_place(), each.path(), std::move(message),
                        shown ? suggest_key(each.key(), known_, map_.path()) : "");
  }
}

std::optional<long long> octal_number(std::string_view text) {
  if (text.size() < 2 || text.front() != '0' || !is_made_of(text, "01234567_")) return std::nullopt;
  return digits(text, 8);
}

std::optional<bool> boolean_in_azure(std::string_view text) {
  return text.size() < 2 ? std::nullopt : boolean_word(text);
}

bool is_text_in_azure(std::string_view text) {
  if (text.empty() || boolean_in_azure(text) || is_date(text)) return false;
  const bool has_sign = text.front() == '-' || text.front() == '+';
  const std::string_view size = has_sign ? text.substr(1) : text;
  const std::string word = lower_case(size);
  const bool is_special = word == ".inf" || (word == ".nan" && !has_sign);
  return size.empty() || (!is_special && !integer_of(size) && !fraction_of(size));
}

std::optional<std::string> other_in_azure(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (is_date(text)) return "Azure ML reads a date";
  const bool negative = text.front() == '-';
  const std::string_view size = negative || text.front() == '+' ? text.substr(1) : text;
  if (size.empty()) return std::nullopt;
  std::string read;
  if (const auto whole = integer_of(size)) {
    read = std::to_string(negative ? -*whole : *whole);
  } else if (const auto fraction = fraction_of(size)) {
    read = python_text(negative ? -*fraction : *fraction);
  }
  if (read.empty() || read == text) return std::nullopt;
  return "Azure ML passes " + read;
}

}  // namespace muster
