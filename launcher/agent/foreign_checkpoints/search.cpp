#include "launcher/agent/foreign_checkpoints/search.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <set>

#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int depth_limit = 4;

// Journals and terminals take no other names.
bool is_tellable(const std::string& path) {
  return to_utf8(path) == path &&
         std::ranges::none_of(path, [](unsigned char c) { return std::iscntrl(c) != 0; });
}

class Search {
 public:
  Search(const std::vector<std::string>& roots, const LookSettings& settings,
         std::chrono::milliseconds limit)
      : search_{Look(limit), settings} {
    for (std::string root : roots) {
      while (root.size() > 1 && root.back() == '/') root.pop_back();
      if (root.starts_with('/')) visit(root, depth_limit);
    }
  }

  bool is_cut() const { return search_.look.is_over(); }

  // The latest first.
  std::vector<SaveCandidate> take() {
    std::set<std::string> told;  // a file with a marker is that, whatever else it looks like
    std::erase_if(search_.found, [&](const SaveCandidate& one) {
      return !is_tellable(one.path) || !told.insert(one.path).second;
    });
    std::ranges::stable_sort(search_.found, std::greater<>{}, [](const SaveCandidate& candidate) {
      return std::pair(candidate.changed_ns, candidate.step.value_or(-1));
    });
    return std::move(search_.found);
  }

 private:
  void visit(const std::string& path, int depth) {
    if (!search_.known.insert(path).second) return;
    const auto folder = search_.look.open(path);
    if (!folder) return;
    const std::string& format = search_.settings.format;
    for (const CheckpointKind& kind : checkpoint_kinds()) {
      const bool is_asked = format == "auto" || format == kind.word;
      if (is_asked && kind.find(*folder, search_)) return;
    }
    if (depth == 0) return;
    for (const FolderEntry& entry : folder->entries) {
      const bool is_hidden = entry.name.starts_with('.');
      const bool is_quarantined = mentions(entry.name, ".incomplete-");
      if (entry.is_folder && !is_hidden && !is_quarantined) {
        visit(folder->path_of(entry.name), depth - 1);
      }
    }
  }

  SaveSearch search_;
};

constexpr std::chrono::seconds usual_look_limit{5};

std::vector<SaveCandidate> candidates_below(const std::vector<std::string>& roots,
                                            const LookSettings& settings) {
  return Search(roots, settings, usual_look_limit).take();
}

ForeignCheckpoint judged(const SaveCandidate& candidate) {
  Judged judgement = candidate.judge();
  // What is missing may be what was not seen.
  const bool is_lost = candidate.is_partial && judgement.state == SaveState::incomplete;
  if (is_lost) judgement = unknown("not all of it can be seen");
  return {std::string(candidate.kind), candidate.path,  candidate.step,      judgement.state,
          std::move(judgement.why),    candidate.bytes, candidate.changed_ns};
}

// A directory of checkpoints is none, whatever its name.
bool is_root(const std::string& path, const std::vector<std::string>& roots) {
  return std::ranges::any_of(
      roots, [&](const std::string& root) { return (root + "/").starts_with(path + "/"); });
}

// The first name of those that is free.
std::optional<std::string> renamed_aside(const std::string& path, std::int64_t attempt) {
  constexpr int names_most = 100;
  const std::string first = path + ".incomplete-" + std::to_string(attempt);
  for (int i = 1; i <= names_most; ++i) {
    const std::string aside = i == 1 ? first : first + "-" + std::to_string(i);
    const auto done =
        ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE);
    if (done == 0) return aside;
    if (errno == EINVAL && ::access(aside.c_str(), F_OK) != 0) {  // not with this file system
      if (std::rename(path.c_str(), aside.c_str()) == 0) return aside;
    }
    if (errno != EEXIST && errno != EINVAL) break;
  }
  return std::nullopt;
}

// Also when it is looked at alone, just before something is done about it.
bool is_still_incomplete(const SaveCandidate& candidate, const LookSettings& settings) {
  if (judged(candidate).state != SaveState::incomplete) return false;
  SaveSearch again{Look(usual_look_limit), settings};
  const auto folder = again.look.open(candidate.path);
  if (!folder) return false;
  const bool holds_others = std::ranges::any_of(folder->entries, [](const FolderEntry& entry) {
    return entry.is_folder && number_between(entry.name, "checkpoint-").has_value();
  });
  find_huggingface(*folder, again);
  return !holds_others && again.found.size() == 1 &&
         judged(again.found.front()).state == SaveState::incomplete;
}

}  // namespace

std::vector<ForeignCheckpoint> foreign_checkpoints(const std::vector<std::string>& roots,
                                                   const LookSettings& settings) {
  std::vector<ForeignCheckpoint> all;
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    all.push_back(judged(candidate));
  }
  return all;
}

std::optional<ForeignCheckpoint> newest_foreign_checkpoint(
    const std::vector<std::string>& roots, const LookSettings& settings,
    const std::function<bool(const ForeignCheckpoint&)>& will_do) {
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    ForeignCheckpoint checkpoint = judged(candidate);
    if (checkpoint.state != SaveState::complete) continue;
    if (!will_do || will_do(checkpoint)) return checkpoint;
  }
  return std::nullopt;
}

std::optional<ForeignCheckpoint> foreign_checkpoint_of(const std::vector<std::string>& roots,
                                                       const LookSettings& settings,
                                                       std::int64_t step) {
  std::optional<ForeignCheckpoint> found;
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    if (candidate.step != step) continue;
    ForeignCheckpoint checkpoint = judged(candidate);
    if (checkpoint.state != SaveState::complete) continue;
    if (found) return std::nullopt;
    found = std::move(checkpoint);
  }
  return found;
}

bool has_no_foreign_checkpoint(const std::vector<std::string>& roots, const LookSettings& settings,
                               std::chrono::milliseconds limit) {
  Search search(roots, settings, limit);
  return !search.is_cut() && search.take().empty();
}

std::vector<std::string> quarantine_incomplete(const std::vector<std::string>& roots,
                                               const LookSettings& settings, const MsSpan& span,
                                               std::int64_t attempt) {
  std::vector<std::string> renamed;
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    const std::int64_t changed_ms = candidate.changed_ns / 1'000'000;
    const bool is_own = changed_ms >= span.since && changed_ms <= span.until;
    if (candidate.kind != "huggingface" || !is_own || is_root(candidate.path, roots)) continue;
    if (!is_still_incomplete(candidate, settings)) continue;
    const auto aside = renamed_aside(candidate.path, attempt);
    if (aside) renamed.push_back(*aside);
  }
  return renamed;
}

}  // namespace muster
