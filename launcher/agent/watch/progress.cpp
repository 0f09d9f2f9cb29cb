#include "launcher/agent/watch/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <sstream>
#include <utility>

#include "launcher/agent/foreign_checkpoints/files.h"
#include "launcher/os/read_file.h"
#include "runtime/protocol/heartbeat.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A line of metrics has about 200 bytes and there is one per step: 1000 steps between two looks.
constexpr std::size_t metrics_limit_bytes = 256u << 10;
constexpr std::int64_t error_limit_bytes = 256 << 10;  // a call stack has some kilobytes
constexpr std::size_t error_told_bytes = 500;
constexpr std::chrono::seconds longest_rise{60};
constexpr int enough_rises = 5;  // fewer say nothing of the next

constexpr std::chrono::seconds metric_look_interval{5};
constexpr int metric_look_share = 50;
// A look that takes longer waits for a file system that hangs; the last one holds the node up.
constexpr Milliseconds metric_look_limit{20'000};
constexpr Milliseconds last_looks_limit{5'000};  // of all that are needed to the end

// The kernel's longest record; a shorter buffer gets EINVAL.
constexpr std::size_t record_bytes = 8192;
// Numbers of processes are used again: what is older than so many kills is forgotten.
constexpr std::size_t kills_kept = 256;

std::optional<std::int64_t> number_at(std::string_view text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

bool lists_memory(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::vector<std::string> read_new_lines(const std::string& path, std::int64_t& offset,
                                        std::size_t limit_bytes) {
  std::vector<std::string> lines;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return lines;
  std::string text(limit_bytes, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), offset);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  std::size_t start = 0;
  for (std::size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    if (end > start) lines.push_back(to_utf8(text.substr(start, end - start)));
  }
  const bool is_endless = start == 0 && text.size() == limit_bytes;  // no metric: passed over
  offset += static_cast<std::int64_t>(is_endless ? limit_bytes : start);
  return lines;
}

std::string error_in(std::string_view text) {
  const auto file = nlohmann::json::parse(text, nullptr, false);
  const auto member = [](const nlohmann::json& map) {
    const auto found = map.is_object() ? map.find("message") : map.end();
    return found == map.end() ? nlohmann::json() : *found;
  };
  nlohmann::json message = member(file);
  if (message.is_object()) message = member(message);
  if (!message.is_string()) return "";
  std::istringstream lines(message.get<std::string>());
  std::string line;
  while (std::getline(lines, line) && line.find_first_not_of(" \t\r") == line.npos) line.clear();
  return without_controls(to_utf8(line.substr(0, error_told_bytes)));
}

std::string read_error_file(const std::string& path) {
  const auto text = read_small(path, error_limit_bytes);
  return text ? error_in(*text) : "";
}

void ProgressWatch::add(RankId rank, std::string heartbeat, std::string metrics) {
  ranks_.emplace(rank, Watched{std::move(heartbeat), std::move(metrics), {}, {}, {}, 0});
}

void ProgressWatch::rank_ended(RankId rank) {
  const auto found = ranks_.find(rank);
  if (found != ranks_.end()) read_heartbeat(found->second.heartbeat, found->second.text);
}

std::optional<std::int64_t> ProgressWatch::step_of(RankId rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? std::nullopt : found->second.step;
}

void ProgressWatch::read_off(RankId rank, std::int64_t step, Moment now, bool is_over) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end() || !found->second.text.empty()) return;
  Watched& watched = found->second;
  if (watched.read_off < step) {
    const bool is_soon = watched.read_off && now - watched.rose_at <= longest_rise;
    if (watched.rises < enough_rises) watched.rises = is_soon ? watched.rises + 1 : 0;
    watched.read_off = step;
    watched.rose_at = now;
  }
  if (watched.rises >= enough_rises || is_over) watched.step = watched.read_off;
}

void ProgressWatch::report_again() {
  for (auto& [rank, watched] : ranks_) watched.told.reset();
}

void ProgressWatch::poll(const JobId& job, AttemptId attempt, ControllerLine& line) {
  if (!line.has_room()) return;
  for (auto& [rank, watched] : ranks_) {
    Progress news{job, attempt, rank, {}, {}, {}};
    if (const auto step = read_heartbeat(watched.heartbeat, watched.text)) {
      watched.step = static_cast<std::int64_t>(*step);
    }
    if (watched.told != watched.step) news.step = watched.told = watched.step;
    news.metrics = read_new_lines(watched.metrics, watched.metrics_offset, metrics_limit_bytes);
    if (news.step || !news.metrics.empty()) line.send(news);
  }
}

void MetricWatch::poll(Clock::time_point now, bool are_ranks_over,
                       const std::function<void()>& on_done) {
  if (is_looking_ && are_ranks_over && !last_began_) {
    tasks_.stop(look_id_);  // it may hang; what it would find the last one does
    is_looking_ = false;
  }
  if (is_looking_ || is_done_ || (now < next_look_ && !are_ranks_over)) return;
  if (are_ranks_over && !last_began_) last_began_ = now;
  is_looking_ = true;
  began_ = now;
  const auto used = std::chrono::duration_cast<Milliseconds>(now - last_began_.value_or(now));
  look_id_ = tasks_.run([places = places_, state = look_.state](
                 const ChildTasks::Tell&) { return text_of(look_at_metrics(places, state)); },
             last_began_ ? last_looks_limit - used : metric_look_limit,
             [self = shared_from_this(), number = ++looks_,
              on_done](const Result<std::string>& answer) {
               if (number != self->looks_) return;
               self->add(answer);
               if (self->is_done_) on_done();
             });
}

void MetricWatch::add(const Result<std::string>& answer) {
  const auto now = Clock::now();
  MetricLook found = answer ? look_of(*answer) : MetricLook{look_.state};
  const Clock::duration pause = metric_look_share * (now - began_);
  next_look_ = now + std::max<Clock::duration>(metric_look_interval, pause);
  if (found.is_cut) next_look_ = now;
  std::ranges::move(found.lines, std::back_inserter(look_.lines));
  std::ranges::move(found.notes, std::back_inserter(look_.notes));
  look_.state = std::move(found.state);
  is_looking_ = false;
  is_done_ = last_began_ && (!found.is_cut || now - *last_began_ > last_looks_limit);
}

std::optional<OomKill> oom_kill_of(std::string_view log_line) {
  constexpr std::string_view killed = "Killed process ";
  const std::size_t at = log_line.find(killed);
  const std::size_t cause = log_line.find("ut of memory");
  if (at == std::string_view::npos || cause == std::string_view::npos || cause == 0) return {};
  const auto pid = number_at(log_line.substr(at + killed.size()));
  if (!pid) return {};
  std::string_view sentence = log_line.substr(cause - 1);
  sentence = sentence.substr(0, sentence.find('\n'));
  return OomKill{static_cast<pid_t>(*pid), std::string(sentence)};
}

std::optional<std::int64_t> oom_kills_of(std::string_view counters) {
  constexpr std::string_view name = "oom_kill ";
  while (!counters.empty()) {
    const std::string_view line = take_until(counters, '\n');
    if (line.starts_with(name)) return number_at(line.substr(name.size()));
  }
  return {};
}

std::vector<std::string> counter_paths(std::string_view self_cgroup, const std::string& root) {
  std::vector<std::string> paths;
  while (!self_cgroup.empty()) {
    std::string_view line = take_until(self_cgroup, '\n');
    if (std::ranges::count(line, ':') < 2) continue;
    take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    const std::string path(line);
    const bool is_first_version = lists_memory(controllers);
    if (!is_first_version && !controllers.empty()) continue;
    const std::string top = root + (is_first_version ? "/memory" : "");
    const char* file = is_first_version ? "/memory.oom_control" : "/memory.events";
    if (path != "/") paths.push_back(top + path + file);
    paths.push_back(top + file);
  }
  return paths;
}

OomWatch::OomWatch(const Sources& sources)
    : log_(::open(sources.kernel_log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (log_) ::lseek(log_.get(), 0, SEEK_END);
  const std::string self = text_of_file(sources.self_cgroup);
  for (const std::string& path : counter_paths(self, sources.cgroups)) {
    const std::string text = text_of_file(path);
    if (text.empty()) continue;
    counter_path_ = path;
    limit_path_ = path.substr(0, path.rfind('/')) + "/memory.failcnt";
    kills_seen_ = oom_kills_of(text).value_or(0);
    limit_hits_seen_ = number_at(text_of_file(limit_path_)).value_or(0);
    return;
  }
}

std::string OomWatch::evidence_of(pid_t pid) {
  read_log();
  const std::string counted = count_evidence();
  const auto killed = kills_.find(pid);
  if (killed == kills_.end()) return counted;
  std::string sentence = "the kernel's log: " + killed->second;
  kills_.erase(killed);
  return sentence;
}

// EPIPE: records were overwritten before they were read; the next read goes on behind them.
void OomWatch::read_log() {
  std::array<char, record_bytes> record;
  while (log_) {
    const ssize_t got = ::read(log_.get(), record.data(), record.size());
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (got <= 0) return;
    const std::string_view text(record.data(), static_cast<std::size_t>(got));
    if (auto kill = oom_kill_of(text)) kills_[kill->pid] = std::move(kill->sentence);
    if (kills_.size() > kills_kept) kills_.erase(kills_.begin());
  }
}

// Kernels before 4.19 count only how often the limit was met.
std::string OomWatch::count_evidence() {
  if (counter_path_.empty()) return {};
  const auto kills = oom_kills_of(text_of_file(counter_path_));
  const std::int64_t hits = number_at(text_of_file(limit_path_)).value_or(0);
  const std::int64_t hits_before = std::exchange(limit_hits_seen_, hits);
  if (!kills) {
    if (hits <= hits_before) return {};
    return "the node's memory limit was met: memory.failcnt rose from " +
           std::to_string(hits_before) + " to " + std::to_string(hits);
  }
  const std::int64_t before = std::exchange(kills_seen_, *kills);
  if (*kills <= before) return {};
  return "the kernel ended a process of this node's cgroup for want of memory: oom_kill rose "
         "from " +
         std::to_string(before) + " to " + std::to_string(*kills);
}

}  // namespace muster
