#include "launcher/agent/watch/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <type_traits>

#include "launcher/wire/json_fields.h"
#include "runtime/checkpoint/choose.h"
#include "scheduler/text/text.h"

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

SeenCheckpoint look(const std::string& directory, const std::string& seen_change) {
  const std::string change = time_of_change(directory);
  if (change == seen_change) return {};
  return {change, probe_checkpoints({directory}).newest};
}

// Only while ranks are being stopped; a grace of a second still sees several looks.
constexpr std::chrono::milliseconds growth_look_interval{200};
// A rank that saves writes something in any five seconds.
constexpr std::chrono::seconds saving_lasts{5};
// A directory with more files than a large run keeps is not looked through to its end.
constexpr int files_limit = 100'000;

// `done` gets nothing where the child gives no answer.
template <class Work, class Done>
void look_in_child(ChildTasks& tasks, Work work, Done done) {
  using Answer = std::invoke_result_t<Work>;
  tasks.run([work = std::move(work)](const ChildTasks::Tell&) { return versioned_json(work(), 1); },
            look_limit,
            [done = std::move(done)](const Result<std::string>& text) {
              const Result<Answer> answer =
                  text ? read_versioned_json<Answer>(*text, 1) : Result<Answer>(text.error());
              done(answer ? &*answer : nullptr);
            });
}

std::optional<CheckpointRef> ref_of(const FoundCheckpoint* found) {
  if (found == nullptr) return std::nullopt;
  return CheckpointRef{static_cast<std::int64_t>(found->step), found->path};
}

// ---- other programs' ----

// Each look lists whole directories. It takes at most a fiftieth of the time.
constexpr std::chrono::seconds foreign_look_interval{5};
// Of one file, whose end tells that it is complete: two looks agree although many are saved.
constexpr std::chrono::seconds file_look_interval{1};
constexpr int foreign_look_share = 50;
constexpr std::chrono::milliseconds near_look_limit{20};
constexpr std::int64_t ns_per_ms = 1'000'000;

CheckpointRef ref_of(const ForeignCheckpoint& found) {
  return {found.step.value_or(CheckpointRef::no_step), found.path, found.kind,
          found.changed_ns / ns_per_ms};
}

bool is_one_file(const std::optional<CheckpointRef>& ref) {
  return ref && (ref->kind == "torch" || ref->kind == "lightning");
}

// Down to the one that was the newest `before`: of those that came since, none has been seen twice.
SeenCheckpoint look_for(const std::vector<std::string>& roots, const LookSettings& settings,
                        const SeenCheckpoint& before) {
  SeenCheckpoint seen;
  newest_foreign_checkpoint(roots, settings, [&](const ForeignCheckpoint& found) {
    const CheckpointRef ref = ref_of(found);
    const std::array facts{std::to_string(found.changed_ns), std::to_string(found.bytes), ref.kind,
                           ref.directory};
    const std::string change = joined(facts);
    if (!seen.newest) seen = {change, ref};
    if (change == before.change) seen.settled = ref;
    return seen.settled || !before.newest || ref.changed_ms < before.newest->changed_ms;
  });
  return seen;
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
  facts_->is_looking = true;
  look_in_child(
      tasks_,
      [directory = places_.directory, seen = facts_->seen_change] { return look(directory, seen); },
      [facts = facts_](const SeenCheckpoint* seen) {
        facts->is_looking = false;
        if (seen) facts->take(*seen);
      });
}

void CheckpointWatch::look_for_foreign(Clock::time_point now) {
  const bool has_own = facts_->newest && !facts_->newest->is_foreign();
  if (places_.foreign.empty() || has_own || facts_->is_looking_for_foreign) return;
  if (now < facts_->next_foreign_look) return;
  facts_->is_looking_for_foreign = true;
  facts_->foreign_look_began = now;
  look_in_child(
      tasks_,
      [roots = places_.foreign, settings = places_.settings, before = facts_->seen_foreign] {
        return look_for(roots, settings, before);
      },
      [facts = facts_](const SeenCheckpoint* seen) {
        facts->is_looking_for_foreign = false;
        const auto ended = Clock::now();
        const auto pause = foreign_look_share * (ended - facts->foreign_look_began);
        if (seen) facts->take_foreign(*seen);
        const auto usual =
            is_one_file(facts->seen_foreign.newest) ? file_look_interval : foreign_look_interval;
        facts->next_foreign_look = ended + std::max<Clock::duration>(usual, pause);
      });
}

void CheckpointWatch::Facts::take_foreign(const SeenCheckpoint& seen) {
  seen_foreign = seen;
  if (!seen.settled) return;
  const CheckpointRef& ref = *seen.settled;
  if (newest && (!newest->is_foreign() || ref.changed_ms <= newest->changed_ms)) return;
  newest = ref;
  found(ref);
}

void CheckpointWatch::Facts::take(const SeenCheckpoint& seen) {
  if (seen.change.empty()) return;
  seen_change = seen.change;
  if (!seen.newest || (newest && newest->directory == seen.newest->directory)) return;
  newest = seen.newest;
  found(*newest);
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
void CheckpointGrowth::Facts::take(const WrittenBytes& now_seen) {
  const auto now = Clock::now();
  const auto lasts = std::max<Clock::duration>(saving_lasts, 2 * (now - look_began));
  if (seen && now_seen.is_beyond(*seen)) saving_until = now + lasts;
  seen = now_seen;
}

void CheckpointGrowth::poll(Clock::time_point now) {
  if (facts_->is_looking || now < facts_->look_began + growth_look_interval) return;
  facts_->look_began = now;
  facts_->is_looking = true;
  look_in_child(
      tasks_, [directories = directories_] { return written_below(directories); },
      [facts = facts_](const WrittenBytes* written) {
        facts->is_looking = false;
        if (written) facts->take(*written);
      });
}

CheckpointProbe probe_checkpoints(const SavePlaces& places,
                                  std::optional<std::int64_t> asked_step) {
  CheckpointProbe probe;
  add_own(probe, places.directory, asked_step);
  if (probe.newest || places.foreign.empty()) return probe;
  const auto foreign = newest_foreign_checkpoint(places.foreign, places.settings);
  if (foreign) probe.newest = ref_of(*foreign);
  if (!foreign || !asked_step) return probe;
  const auto asked = foreign_checkpoint_of(places.foreign, places.settings, *asked_step);
  if (asked) probe.asked = ref_of(*asked);
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
