#include "launcher/agent/watch/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

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
  const auto newest = probe_checkpoints({directory}).newest;
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

// ---- other programs' ----

// Each look lists whole directories. It takes at most a fiftieth of the time.
constexpr std::chrono::seconds foreign_look_interval{5};
constexpr int foreign_look_share = 50;
constexpr std::chrono::milliseconds near_look_limit{20};
constexpr std::int64_t ns_per_ms = 1'000'000;

CheckpointRef ref_of(const ForeignCheckpoint& found) {
  return {found.step.value_or(CheckpointRef::no_step), found.path, found.kind,
          found.changed_ns / ns_per_ms};
}

// "<step>\n<ms of change>\n<bytes>\n<kind>\n<path>"; empty: there is none.
std::string look_for(const std::vector<std::string>& roots, const LookSettings& settings) {
  const auto newest = newest_foreign_checkpoint(roots, settings);
  if (!newest) return {};
  const CheckpointRef ref = ref_of(*newest);
  return std::to_string(ref.step) + "\n" + std::to_string(ref.changed_ms) + "\n" +
         std::to_string(newest->bytes) + "\n" + ref.kind + "\n" + ref.directory;
}

CheckpointRef ref_in(const std::string& answer) {
  std::istringstream lines(answer);
  CheckpointRef ref;
  std::string bytes;
  lines >> ref.step >> ref.changed_ms >> bytes >> ref.kind;
  lines.ignore();  // the end of the line
  std::getline(lines, ref.directory);
  return ref;
}

// Beside the checkpoint directory, where a program may write anything at any time.
bool is_of_checkpoint(std::string_view name) {
  constexpr std::string_view endings[] = {".pt", ".pth", ".ckpt", ".safetensors", ".distcp"};
  constexpr std::string_view unnamed = ".tmpXXXXXX";
  return is_of_library(name) || name.starts_with(".metadata") ||
         (name.starts_with(".tmp") && name.size() == unnamed.size()) ||
         std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

bool is_log(std::string_view name) {
  constexpr std::string_view endings[] = {".log", ".csv", ".jsonl", ".txt", ".out", ".err"};
  return name.find("tfevents") != name.npos ||
         std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

void add_own(CheckpointProbe& probe, const std::string& directory,
             std::optional<std::int64_t> asked_step) {
  CheckpointSearch search = search_checkpoints(directory);
  const auto asked = std::find_if(search.usable.begin(), search.usable.end(), [&](const auto& one) {
    return static_cast<std::int64_t>(one.step) == asked_step;
  });
  if (asked != search.usable.end()) probe.asked = ref_of(&*asked);
  probe.newest = ref_of(search.newest());
  probe.newest_certified = ref_of(search.newest(CheckpointGrade::certified));
  probe.trouble = std::move(search.trouble);
}

}  // namespace

SavePlaces save_places(const std::string& path, const JobDirectories& job,
                       const ForeignSaves& saves) {
  SavePlaces places{path.empty() ? job.own : path};
  places.is_near = path.empty() && saves.directories.empty();
  if (saves.format == "none" || saves.format == "muster") return places;
  places.foreign = {places.directory, job.outputs};
  places.foreign.insert(places.foreign.end(), saves.directories.begin(), saves.directories.end());
  places.settings = {saves.format, saves.marker, saves.world};
  return places;
}

CheckpointWatch::CheckpointWatch(ChildTasks& tasks, SavePlaces places, Found found)
    : tasks_(tasks), places_(std::move(places)), facts_(std::make_shared<Facts>()) {
  facts_->found = std::move(found);
}

void CheckpointWatch::poll(Clock::time_point now) {
  if (!next_look_) {  // its ranks are just being started
    next_look_ = now + news_look_interval;
    facts_->next_foreign_look = now + foreign_look_interval;
  }
  look_for_foreign(now);
  if (now < *next_look_ || facts_->is_looking) return;
  next_look_ = now + news_look_interval;
  if (places_.is_near) return facts_->take(look(places_.directory, facts_->seen_change));
  look_in_child(tasks_, facts_, [directory = places_.directory, seen = facts_->seen_change] {
    return look(directory, seen);
  });
}

void CheckpointWatch::look_for_foreign(Clock::time_point now) {
  const bool has_own = facts_->newest && !facts_->newest->is_foreign();
  if (places_.foreign.empty() || has_own || facts_->is_looking_for_foreign) return;
  if (now < facts_->next_foreign_look) return;
  facts_->is_looking_for_foreign = true;
  facts_->foreign_look_began = now;
  tasks_.run([roots = places_.foreign, settings = places_.settings](
                 const ChildTasks::Tell&) { return look_for(roots, settings); },
             look_limit,
             [facts = facts_](const Result<std::string>& answer) {
               facts->is_looking_for_foreign = false;
               const auto ended = Clock::now();
               const auto pause = foreign_look_share * (ended - facts->foreign_look_began);
               facts->next_foreign_look =
                   ended + std::max<Clock::duration>(foreign_look_interval, pause);
               if (answer) facts->take_foreign(*answer);
             });
}

void CheckpointWatch::Facts::take_foreign(const std::string& answer) {
  const bool is_settled = !answer.empty() && answer == seen_foreign;
  seen_foreign = answer;
  if (!is_settled) return;
  const CheckpointRef ref = ref_in(answer);
  if (newest && (!newest->is_foreign() || ref.changed_ms <= newest->changed_ms)) return;
  newest = ref;
  found(ref);
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

WrittenBytes written_below(const std::vector<std::string>& directories) {
  WrittenBytes written;
  int files = 0;
  for (const std::string& directory : directories) {
    std::error_code failed;
    std::filesystem::recursive_directory_iterator each(
        directory, std::filesystem::directory_options::skip_permission_denied, failed);
    for (; !failed && each != std::filesystem::recursive_directory_iterator();
         each.increment(failed)) {
      struct stat facts {};
      if (::lstat(each->path().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
      const std::string name = each->path().filename().native();
      const bool is_first = &directory == &directories.front();
      if (is_first ? is_log(name) : !is_of_checkpoint(name)) continue;
      const std::int64_t changed_ns = facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
      written.newest_ns = std::max(written.newest_ns, changed_ns);
      written.bytes += facts.st_size;
      if (++files == files_limit) return written;
    }
  }
  return written;
}

CheckpointGrowth::CheckpointGrowth(ChildTasks& tasks, const SavePlaces& places)
    : tasks_(tasks),
      directories_(places.foreign.empty() ? std::vector{places.directory} : places.foreign),
      facts_(std::make_shared<Facts>()) {}

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
  look_in_child(tasks_, facts_, [directories = directories_] {
    const WrittenBytes written = written_below(directories);
    return std::to_string(written.newest_ns) + "\n" + std::to_string(written.bytes);
  });
}

CheckpointProbe probe_checkpoints(const SavePlaces& places,
                                  std::optional<std::int64_t> asked_step) {
  CheckpointProbe probe;
  add_own(probe, places.directory, asked_step);
  if (probe.newest || places.foreign.empty()) return probe;
  const auto foreign = newest_foreign_checkpoint(places.foreign, places.settings);
  if (foreign) probe.newest = ref_of(*foreign);
  return probe;
}

std::optional<CheckpointProbe> probe_near_checkpoints(const SavePlaces& places) {
  CheckpointProbe probe;
  if (!places.is_near) return std::nullopt;
  add_own(probe, places.directory, std::nullopt);
  const bool is_all =
      probe.newest || has_no_foreign_checkpoint(places.foreign, places.settings, near_look_limit);
  return is_all ? std::optional(std::move(probe)) : std::nullopt;
}

}  // namespace muster
