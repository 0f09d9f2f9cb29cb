#include "launcher/agent/watch/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "runtime/checkpoint/choose.h"

namespace muster {

namespace {

// A checkpoint is news within a second; a look costs one stat when nothing changed, and a fork
// unless the directory is near.
constexpr std::chrono::seconds news_look_interval{1};
// A look that takes longer waits for a file system that hangs; another is tried then.
constexpr Milliseconds look_limit{20000};

std::string time_of_change(const std::string& directory) {
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) return "absent";
  return std::to_string(facts.st_mtim.tv_sec) + "." + std::to_string(facts.st_mtim.tv_nsec);
}

// "<time of change>" or "<time of change>\n<step>\n<directory>"; empty: nothing changed.
std::string look(const std::string& directory, const std::string& seen_change) {
  const std::string change = time_of_change(directory);
  if (change == seen_change) return {};
  const auto newest = probe_checkpoints(directory).newest;
  if (!newest) return change;
  return change + "\n" + std::to_string(newest->step) + "\n" + newest->directory;
}

// Only while ranks are being stopped; a grace of a second still sees several looks.
constexpr std::chrono::milliseconds growth_look_interval{200};
// A rank that saves writes something in any five seconds.
constexpr std::chrono::seconds saving_lasts{5};
// A directory with more files than a large run keeps is not looked through to its end.
constexpr int files_limit = 100'000;

std::int64_t number_in(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

template <class Facts, class Work>
void look_in_child(ChildTasks& tasks, const std::shared_ptr<Facts>& facts, Work work) {
  facts->is_looking = true;
  tasks.run([work = std::move(work)](const ChildTasks::Tell&) { return work(); }, look_limit,
            [facts](const Result<std::string>& answer) {
              facts->is_looking = false;
              if (answer) facts->take(*answer);
            });
}

std::optional<CheckpointRef> ref_of(const FoundCheckpoint* found) {
  if (found == nullptr) return std::nullopt;
  return CheckpointRef{static_cast<std::int64_t>(found->step), found->path};
}

}  // namespace

CheckpointWatch::CheckpointWatch(ChildTasks& tasks, std::string directory, bool is_near,
                                 Found found)
    : tasks_(tasks),
      directory_(std::move(directory)),
      is_near_(is_near),
      facts_(std::make_shared<Facts>()) {
  facts_->found = std::move(found);
}

void CheckpointWatch::poll(Clock::time_point now) {
  if (!next_look_) next_look_ = now + news_look_interval;  // its ranks are just being started
  if (now < *next_look_ || facts_->is_looking) return;
  next_look_ = now + news_look_interval;
  if (is_near_) return facts_->take(look(directory_, facts_->seen_change));
  look_in_child(tasks_, facts_, [directory = directory_, seen = facts_->seen_change] {
    return look(directory, seen);
  });
}

void CheckpointWatch::Facts::take(const std::string& answer) {
  if (answer.empty()) return;
  const std::size_t first = answer.find('\n');
  seen_change = answer.substr(0, first);
  if (first == std::string::npos) return;
  const std::size_t second = answer.find('\n', first + 1);
  CheckpointRef ref{std::atoll(answer.c_str() + first + 1), answer.substr(second + 1)};
  if (newest && newest->directory == ref.directory) return;
  newest = ref;
  found(ref);
}

WrittenBytes written_below(const std::string& directory) {
  WrittenBytes written;
  int files = 0;
  std::error_code failed;
  std::filesystem::recursive_directory_iterator each(
      directory, std::filesystem::directory_options::skip_permission_denied, failed);
  for (; !failed && each != std::filesystem::recursive_directory_iterator();
       each.increment(failed)) {
    struct stat facts {};
    if (::lstat(each->path().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    const std::int64_t changed_ns = facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
    written.newest_ns = std::max(written.newest_ns, changed_ns);
    written.bytes += facts.st_size;
    if (++files == files_limit) break;
  }
  return written;
}

CheckpointGrowth::CheckpointGrowth(ChildTasks& tasks, std::string directory)
    : tasks_(tasks), directory_(std::move(directory)), facts_(std::make_shared<Facts>()) {}

// A look that takes long must not be what ends the grace: it counts for twice its own time.
void CheckpointGrowth::Facts::take(const std::string& answer) {
  const std::string_view text = answer;
  const std::size_t line = text.find('\n');
  if (line == text.npos) return;
  const WrittenBytes now_seen{number_in(text.substr(0, line)), number_in(text.substr(line + 1))};
  const auto now = Clock::now();
  const auto lasts = std::max<Clock::duration>(saving_lasts, 2 * (now - look_began));
  if (seen && now_seen.is_beyond(*seen)) saving_until = now + lasts;
  seen = now_seen;
}

void CheckpointGrowth::poll(Clock::time_point now) {
  if (facts_->is_looking || now < facts_->look_began + growth_look_interval) return;
  facts_->look_began = now;
  look_in_child(tasks_, facts_, [directory = directory_] {
    const WrittenBytes written = written_below(directory);
    return std::to_string(written.newest_ns) + "\n" + std::to_string(written.bytes);
  });
}

CheckpointProbe probe_checkpoints(const std::string& directory,
                                  std::optional<std::int64_t> asked_step) {
  CheckpointSearch search = search_checkpoints(directory);
  CheckpointProbe probe;
  const auto asked = std::find_if(search.usable.begin(), search.usable.end(), [&](const auto& one) {
    return static_cast<std::int64_t>(one.step) == asked_step;
  });
  if (asked != search.usable.end()) probe.asked = ref_of(&*asked);
  probe.newest = ref_of(search.newest());
  probe.newest_certified = ref_of(search.newest(CheckpointGrade::certified));
  probe.trouble = std::move(search.trouble);
  return probe;
}

}  // namespace muster
