#include "cli/checkpoint/verify.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/checkpoint/report.h"
#include "cli/checkpoint/subject.h"
#include "cli/client/find.h"
#include "cli/terminal/terminal.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int not_good = 1;
// One reader per core, and not more than a disk has use for.
constexpr std::int64_t threads_limit = 8;
constexpr std::int64_t threads_asked_limit = 1024;

// The line that grows while bytes are read; nothing where it cannot be redrawn.
class ReadProgress {
 public:
  ReadProgress(std::uint64_t total, const CommonOptions& common)
      : total_(total), shown_(can_redraw(Stream::err) && !common.only_show_errors) {}

  void add(std::uint64_t bytes) {
    done_ += bytes;
    const auto now = SteadyClock::now();
    if (!shown_ || now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    write_all(Stream::err, "\rread " + bytes_text(done_) + " of " + bytes_text(total_) + "\x1b[K");
  }

  std::string summary() const {
    const std::chrono::duration<double> took = SteadyClock::now() - begin_;
    char rate[60];
    std::snprintf(rate, sizeof rate, " in %.2fs, %.0f MB/s", took.count(),
                  static_cast<double>(done_) / 1e6 / std::max(took.count(), 1e-9));
    return "read " + bytes_text(done_) + rate;
  }

  void clear() const {
    if (shown_) write_all(Stream::err, "\r\x1b[K");
  }

 private:
  std::uint64_t total_;
  bool shown_;
  std::uint64_t done_ = 0;
  SteadyClock::time_point begin_ = SteadyClock::now();
  SteadyClock::time_point drawn_;
};

// The newest that was sealed, damaged or not: what somebody relies on who does not look.
bool is_relied_on(const CheckpointLine& line) {
  return line.reason.empty() || line.state == "CORRUPT";
}

Result<std::vector<CheckpointLine>> wanted_lines(const CheckpointSubject& subject, bool all) {
  CheckpointLines known = checkpoint_lines(subject.root);
  if (!known.trouble.empty()) return Error{known.trouble};
  std::vector<CheckpointLine> wanted;
  for (const CheckpointLine& line : known.lines) {
    const std::string name = checkpoint_directory_name(line.name);
    const bool meant = subject.name ? *subject.name == name : all || is_relied_on(line);
    if (meant) wanted.push_back(line);
    if (meant && !all && !subject.name) break;
  }
  if (wanted.empty()) return Error{subject.path() + ": there is no checkpoint to read"};
  return wanted;
}

std::uint64_t total_bytes(const std::vector<CheckpointLine>& lines) {
  std::uint64_t total = 0;
  for (const CheckpointLine& line : lines) total += line.facts ? line.facts->bytes : 0;
  return total;
}

unsigned thread_count(const CheckpointVerifyOptions& options) {
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t wanted = options.threads.value_or(std::min(cores, threads_limit));
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, threads_asked_limit));
}

}  // namespace

int verify_checkpoints(const CheckpointVerifyOptions& options, const CommonOptions& common) {
  const auto subject = checkpoint_subject(Home::from_environment(), options.subject);
  const auto lines = subject ? wanted_lines(*subject, options.all)
                             : Result<std::vector<CheckpointLine>>(subject.error());
  if (!lines) {
    complain(lines.error().message, common);
    return no_such_job;
  }
  ReadProgress progress(total_bytes(*lines), common);
  std::vector<CheckedCheckpoint> checked;
  for (const CheckpointLine& line : *lines) {
    CheckedCheckpoint& one = checked.emplace_back();
    one.path = line.path;
    one.unsealed = line.state == "INCOMPLETE" && !subject->name && &line == &lines->front();
    if (one.unsealed) continue;
    one.verdict = verify_checkpoint(
        line.path, {thread_count(options), [&](std::uint64_t bytes) { progress.add(bytes); }});
  }
  progress.clear();
  const bool good = std::all_of(checked.begin(), checked.end(),
                                [](const CheckedCheckpoint& one) { return one.verdict.good(); });
  if (wants_table(common)) {
    write_all(Stream::out, checked_text(checked, wants_color(common.color, Stream::out)));
  } else if (const int failed = print_document(checked_document(checked), common); failed != 0) {
    return failed;
  }
  notice(progress.summary(), common);
  return good ? 0 : not_good;
}

}  // namespace muster
