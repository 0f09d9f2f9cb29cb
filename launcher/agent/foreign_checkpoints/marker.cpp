// What a program itself calls complete, by a file of its own: `checkpoint.marker` in a folder, or
// what checkpoint_saved() of muster.py writes into a folder or beside a file.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/agent/foreign_checkpoints/search.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr std::string_view own_marker = ".muster-complete";

// {"step": N, "files": N, "bytes": N}; -1: not told.
struct Mark {
  std::int64_t step = -1;
  std::int64_t files = -1;
  std::int64_t bytes = -1;
};

Mark read_mark(const std::string& path) {
  constexpr std::int64_t limit = 4096;
  const auto text = read_small(path, limit);
  const auto content = text ? read_json(*text) : nlohmann::json();
  const auto number = [&](const char* name) -> std::int64_t {
    const auto& told = member_of(content, name);
    // What does not fit is negative.
    return told.is_number_integer() ? told.get<std::int64_t>() : -1;
  };
  return {number("step"), number("files"), number("bytes")};
}

struct Content {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  // the latest of the files

  void add(const FolderEntry& file) {
    ++files;
    bytes += file.bytes;
    changed_ns = std::max(changed_ns, file.changed_ns);
  }
};

void add_content(Content& content, const ListedFolder& folder, const Look& look, int depth) {
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.is_folder && entry.name != own_marker) content.add(entry);
    const auto inner =
        entry.is_folder && depth > 0 ? look.open(folder.path_of(entry.name)) : std::nullopt;
    if (inner) add_content(content, *inner, look, depth - 1);
  }
}

// One that is older than the data is of what lay there before. What is gone since was deleted.
bool add_if_current(SaveCandidate candidate, const Content& content, const FolderEntry& marker,
                    const std::string& path, std::vector<SaveCandidate>& found) {
  if (marker.is_folder || marker.changed_ns < content.changed_ns) return false;
  const Mark mark = read_mark(path);
  if (mark.step < 0) return false;
  candidate.step = mark.step;
  candidate.bytes = content.bytes;
  candidate.changed_ns = marker.changed_ns;
  candidate.is_partial = false;
  const bool is_whole = content.files >= mark.files && content.bytes >= mark.bytes;
  candidate.judge = [is_whole] {
    return is_whole ? Judged{} : incomplete("not all that its marker counts is there");
  };
  found.push_back(std::move(candidate));
  return true;
}

void find_marked_files(const ListedFolder& folder, std::vector<SaveCandidate>& found) {
  for (const FolderEntry& marker : folder.entries) {
    if (!marker.name.ends_with(own_marker)) continue;
    const std::string name = marker.name.substr(0, marker.name.size() - own_marker.size());
    const FolderEntry* data = name.empty() ? nullptr : folder.find(name);
    if (!data || data->is_folder) continue;
    Content content;
    content.add(*data);
    add_if_current({"marker", folder.path_of(name)}, content, marker, folder.path_of(marker.name),
                   found);
  }
}

bool is_marked_folder(const ListedFolder& folder, SaveSearch& search) {
  constexpr int depth_limit_of_data = 12;
  const FolderEntry* own = folder.find(own_marker);
  if (!own) return false;
  Content content;
  add_content(content, folder, search.look, depth_limit_of_data);
  return add_if_current(candidate_of("marker", folder), content, *own, folder.path_of(own_marker),
                        search.found);
}

}  // namespace

bool find_marked(const ListedFolder& folder, SaveSearch& search) {
  find_marked_files(folder, search.found);
  if (is_marked_folder(folder, search)) return true;
  const bool is_marked = std::ranges::any_of(folder.entries, [&](const FolderEntry& entry) {
    return !entry.is_folder && fits_pattern(search.settings.marker, entry.name);
  });
  if (search.settings.marker.empty() || !is_marked) return false;
  search.found.push_back(candidate_of("marker", folder));
  search.found.back().judge = [] { return Judged{}; };
  return true;
}

}  // namespace muster
