#include "launcher/agent/metric_sources/follow.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "launcher/agent/foreign_checkpoints/files.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int metric_depth = 4;
constexpr std::chrono::milliseconds search_limit{3000};
constexpr std::size_t places_limit = 10'000;
constexpr std::size_t tags_limit = 2000;
constexpr std::size_t tag_bytes = 200;

class MetricSearch {
 public:
  MetricSearch(const MetricPlaces& places, MetricLook& look) : places_(places), look_(look) {
    for (std::string root : places.directories) {
      while (root.ends_with('/')) root.pop_back();
      visit(root, "", metric_depth);
    }
  }

 private:
  // What somebody else put there is nothing of the job's.
  void visit(const std::string& path, const std::string& prefix, int depth) {
    const auto folder = seen_.insert(path).second ? search_.open(path) : std::nullopt;
    if (!folder) return;
    if (depth == metric_depth) root_owner_ = folder->owner;
    for (const FolderEntry& entry : folder->entries) {
      const bool is_own = entry.owner == ::geteuid() || entry.owner == root_owner_;
      if (!is_own || entry.name.starts_with('.')) continue;
      if (!entry.is_folder) {
        take(*folder, entry, prefix);
      } else if (depth > 0) {
        visit(folder->path_of(entry.name), prefix + entry.name + "/", depth - 1);
      }
    }
  }

  void take(const ListedFolder& folder, const FolderEntry& entry, const std::string& prefix) {
    if (entry.changed_ns / 1'000'000 < places_.since_ms) return;
    const bool is_history =
        entry.name == "trainer_state.json" && folder.name().starts_with("checkpoint-");
    ReadSource* read = is_history ? read_trainer_state : nullptr;
    if (entry.name.starts_with("events.out.tfevents.")) read = read_event_file;
    if (entry.name == "metrics.csv") read = read_metrics_csv;
    if (entry.name.starts_with("mlflow") && entry.name.ends_with(".db")) read = read_mlflow;
    if (read == nullptr) return;
    const std::string path = folder.path_of(entry.name);
    // Each checkpoint has the history of all before.
    const std::string key = is_history ? folder.path.substr(0, folder.path.rfind('/')) : path;
    const std::string writer = read == read_event_file ? writer_of(entry.name) : key;
    auto& known = look_.state.places;
    if (known.size() >= places_limit && !known.contains(key)) return;
    SourcePlace& place = known[key];
    if (!is_history && place.inode != entry.inode) place = {entry.inode};
    const std::int64_t version = entry.changed_ns + entry.bytes;
    const bool is_taken = place.version == version && read != read_mlflow;
    if (place.is_damaged || is_taken) return;
    if (look_.points.size() >= points_limit) return static_cast<void>(look_.is_cut = true);
    read({path, is_history ? "" : prefix, writer, entry.bytes, places_}, place, look_);
    place.version = look_.is_cut ? 0 : version;
  }

  const MetricPlaces& places_;
  MetricLook& look_;
  Look search_{search_limit};
  std::uint32_t root_owner_ = 0;
  std::set<std::string> seen_;
};

// What programs call the loss that they train on.
bool is_training_loss(const std::string& tag) {
  static const auto names =
      Pattern::compile("(^|/)(train(ing)?[/_])?(epoch_)?loss([/_](train(ing)?|step))?$");
  const std::string word = lower_case(tag);
  return names->found_in(word) && !mentions(word, "val") && !mentions(word, "test");
}

constexpr std::size_t line_bytes = 4096;
// Not sent yet: five seconds of 10,000 a second.
constexpr std::size_t printed_limit = 50'000;
// A fifth of the agent's time, saved up for one second: a line takes some microseconds.
constexpr int time_share = 5;
constexpr std::chrono::milliseconds most_time{200};

void take_map(std::string_view line, std::vector<MetricPoint>& points) {
  static const auto pair = Pattern::compile(R"('(?P<name>[^']+)': '?(?P<number>[-+.\w]+))");
  if (!trimmed(line).starts_with("{'")) return;
  for (auto found = pair->named_in(line); !found.empty(); found = pair->named_in(line)) {
    const std::string_view number = found.at("number");
    const auto value = value_of(number);
    if (value) points.push_back(SourceFile{}.point(found.at("name"), *value, {}));
    line.remove_prefix(static_cast<std::size_t>(number.data() - line.data()) + number.size());
  }
}

}  // namespace

// By the rules that hold for all sources: first writers, names, limits; `loss` is what is shown.
void MetricLook::make_lines() {
  std::map<std::optional<std::int64_t>, nlohmann::json> by_step;
  for (const MetricPoint& point : points) {
    const std::string tag = without_controls(to_utf8(point.tag));
    if (state.writers.size() < tags_limit) state.writers.emplace(tag, point.writer);
    const auto writer = state.writers.find(tag);
    if (tag.empty() || writer == state.writers.end() || writer->second != point.writer) continue;
    nlohmann::json& line = by_step[point.step];
    if (point.step) line["step"] = *point.step;
    if (tag != "step") line[tag] = point.value;
    if (is_training_loss(tag)) line.emplace("loss", point.value);
    state.step = std::max(state.step, point.step);
  }
  points.clear();
  for (const auto& [step, line] : by_step) lines.push_back(line.dump());
}

MetricLook MetricLook::take() {
  return {{{}, {}, state.step}, {}, std::exchange(lines, {}), std::exchange(notes, {})};
}

MetricPoint SourceFile::point(std::string_view name, double value,
                              std::optional<std::int64_t> step) const {
  const std::string tag = prefix + std::string(name.substr(0, tag_bytes));
  return {name.empty() ? "" : tag.substr(0, tag_bytes), value, step, writer};
}

void SourceFile::note(const std::string& what_is_wrong, SourcePlace& place,
                      MetricLook& look) const {
  if (!place.is_noted) look.notes.push_back("metrics of " + path + ": " + what_is_wrong);
  place.is_noted = true;
}

MetricLook look_at_metrics(const MetricPlaces& places, MetricState state) {
  MetricLook look{std::move(state)};
  MetricSearch(places, look);
  look.make_lines();
  return look;
}

std::optional<double> value_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_all = error == std::errc{} && end == text.data() + text.size();
  return is_all ? std::optional(value) : std::nullopt;
}

std::string text_of(const MetricLook& look) {
  nlohmann::json out;
  write_json(out, look);
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

MetricLook look_of(const std::string& text) {
  MetricLook look;
  const auto in = nlohmann::json::parse(text, nullptr, false);
  if (in.is_object()) read_json(in, look);
  return look;
}

void OutputPatterns::set(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    auto pattern = Pattern::compile(text);
    reads_maps_ |= text == "hf";
    if (pattern && text != "hf") patterns_.push_back(std::move(*pattern));
  }
}

void OutputPatterns::take(RankId rank, std::int64_t offset, std::string_view bytes) {
  if (patterns_.empty() && !reads_maps_) return;
  Printed& printed = printed_[rank];
  const std::int64_t known = std::clamp<std::int64_t>(printed.seen - offset, 0, std::ssize(bytes));
  printed.seen = std::max(printed.seen, offset + std::ssize(bytes));
  bytes.remove_prefix(static_cast<std::size_t>(known));
  const auto began = Clock::now();
  left_ = std::min<Clock::duration>(left_ + (began - asked_at_) / time_share, most_time);
  asked_at_ = began;
  bool has_time = left_ > Clock::duration{0} && look_.lines.size() < printed_limit;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");  // a progress bar ends in the former
    const std::string_view part = bytes.substr(0, end);
    printed.line.append(part.substr(0, line_bytes - std::min(line_bytes, printed.line.size())));
    if (end == bytes.npos) break;
    bytes.remove_prefix(end + 1);
    if (has_time && !printed.line.empty()) take_line(rank, printed.line);
    printed.line.clear();
    has_time = has_time && Clock::now() - began < left_;
  }
  left_ -= Clock::now() - began;
  if (has_time || std::exchange(is_noted_, true)) return;
  look_.notes.push_back("metrics.regex: there is too much output to search all of it");
}

void OutputPatterns::take_line(RankId rank, std::string_view line) {
  std::vector<MetricPoint>& points = look_.points;
  std::optional<std::int64_t> step;
  if (reads_maps_) take_map(line, points);
  for (const Pattern& pattern : patterns_) {
    for (const auto& [name, text] : pattern.named_in(line)) {
      if (name == "step") step = read_integer(trimmed(text));
      const auto value = name == "step" ? std::nullopt : value_of(text);
      if (value) points.push_back(SourceFile{}.point(name, *value, {}));
    }
  }
  if (points.empty() && step) points.push_back({"step"});
  for (MetricPoint& point : points) {
    point.step = step;
    point.writer = std::to_string(rank.value);
  }
  look_.make_lines();
}

}  // namespace muster
