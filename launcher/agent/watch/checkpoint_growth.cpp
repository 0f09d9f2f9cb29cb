#include "launcher/agent/watch/checkpoint_growth.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace muster {

namespace {

// Only while ranks are being stopped; a grace of a second still sees several looks.
constexpr std::chrono::milliseconds growth_look_interval{200};
constexpr Milliseconds growth_look_limit{20'000};
// A rank that saves writes something in any five seconds.
constexpr std::chrono::seconds saving_lasts{5};
// A directory with more files than a large run keeps is not looked through to its end.
constexpr int files_limit = 100'000;

std::int64_t number_in(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

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
void CheckpointGrowth::Facts::note(const WrittenBytes& now_seen) {
  const auto now = Clock::now();
  const auto lasts = std::max<Clock::duration>(saving_lasts, 2 * (now - look_began));
  if (seen && now_seen.is_beyond(*seen)) saving_until = now + lasts;
  seen = now_seen;
}

void CheckpointGrowth::poll(Clock::time_point now) {
  if (facts_->is_looking || now < facts_->look_began + growth_look_interval) return;
  facts_->look_began = now;
  facts_->is_looking = true;
  tasks_.run(
      [directory = directory_](const ChildTasks::Tell&) {
        const WrittenBytes written = written_below(directory);
        return std::to_string(written.newest_ns) + "\n" + std::to_string(written.bytes);
      },
      growth_look_limit,
      [facts = facts_](Result<std::string> answer) {
        facts->is_looking = false;
        const std::size_t line = answer ? answer->find('\n') : std::string::npos;
        if (line == std::string::npos) return;
        const std::string_view text = *answer;
        facts->note({number_in(text.substr(0, line)), number_in(text.substr(line + 1))});
      });
}

}  // namespace muster
