#include "launcher/agent/watch/oom.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

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
