#include "cli/data/catalogue.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ranges>
#include <tuple>

#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

const std::string text_end = ".yml", archived_end = ".archived", label_end = ".label";
constexpr std::size_t version_limit_bytes = 255 - 16;  // of a file name, with what is put behind it
constexpr int most_tries = 1000;  // so many others would have to add at the same instant

// As Azure has names and versions: 1 to 255 letters, digits, `_`, `-` and `.`, beginning with a
// letter, a digit or `_`.
bool is_catalogue_name(std::string_view text) {
  return text.size() <= version_limit_bytes && is_word_of(text.substr(0, 1), "_") &&
         is_word_of(text, "_.-");
}

// Of a directory's entries with this end, without it.
std::vector<std::string> listed_names(const fs::path& directory, const std::string& end = "") {
  std::vector<std::string> names;
  std::error_code failure;
  fs::directory_iterator entry(directory, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    std::string name = entry->path().filename().string();
    if (!name.ends_with(end)) continue;
    name.resize(name.size() - end.size());
    if (is_catalogue_name(name)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::int64_t number_of(const std::string& version) {
  const bool is_short = is_made_of(version, "0123456789") && version.size() <= 18;
  return is_short ? read_integer(version).value_or(0) : 0;
}

std::string next_version(const fs::path& folder) {
  std::int64_t greatest = 0;
  for (const std::string& version : listed_names(folder, text_end)) {
    greatest = std::max(greatest, number_of(version));
  }
  return std::to_string(greatest + 1);
}

CatalogueEntry entry_of(const fs::path& folder, const std::string& version) {
  CatalogueEntry entry{folder.filename().string(), version, 0, false, {}};
  const fs::path file = folder / (version + text_end);
  struct stat facts {};
  if (::lstat(file.c_str(), &facts) == 0) {
    entry.created_ns = std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
  }
  entry.is_archived = ::access((folder / (version + archived_end)).c_str(), F_OK) == 0;
  entry.text = text_of_file(file);
  return entry;
}

// What a killed caller left of one is no entry: it begins with a dot.
Result<fs::path> whole_file(const fs::path& folder, std::string_view text) {
  std::string path = folder / ".new-XXXXXX";
  const Fd file(::mkostemp(path.data(), O_CLOEXEC));
  if (file && write_all(file.get(), text) && ::fsync(file.get()) == 0) return fs::path(path);
  const Error why = system_error("write below " + folder.string());
  if (file) ::unlink(path.c_str());
  return why;
}

void sync_folder(const fs::path& folder) {
  const Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened) ::fsync(opened.get());
}

// Null where all are archived.
const CatalogueEntry* newest_of(const std::vector<CatalogueEntry>& entries) {
  for (const CatalogueEntry& entry : std::views::reverse(entries)) {
    if (!entry.is_archived) return &entry;
  }
  return nullptr;
}

}  // namespace

std::pair<std::string, std::string> split_reference(std::string_view reference) {
  const std::size_t mark = std::min(reference.find_first_of(":@"), reference.size());
  std::string_view which = reference.substr(mark);
  if (which.starts_with(':')) which.remove_prefix(1);
  return {std::string(reference.substr(0, mark)), std::string(which)};
}

Catalogue::Catalogue(const Home& home, Kind kind) {
  constexpr const char* words[] = {"datastore", "data", "environment"};
  word_ = words[static_cast<std::size_t>(kind)];
  root_ = home.root / "catalogue" / word_;
}

Error Catalogue::not_found(const std::string& name) const {
  const std::string near = did_you_mean(name, names());
  return Error{"there is no " + word_ + " " + quoted_text(name) +
               (near.empty() ? "" : "; " + near)};
}

Result<std::string> Catalogue::add(const std::string& name,
                                   const std::optional<std::string>& version,
                                   std::string_view text) const {
  for (const std::string* each : {&name, version ? &*version : &name}) {
    if (is_catalogue_name(*each)) continue;
    return Error{
        quoted_text(*each) +
        " is not a name; expected letters, digits, '_', '-' and '.', not '-' or '.' first"};
  }
  if (auto made = open_private_directory(folder(name).string()); !made) return made.error();
  const auto file = whole_file(folder(name), text);
  if (!file) return file.error();
  const auto place = [&]() -> Result<std::string> {
    for (int i = 0; i < most_tries; ++i) {
      const std::string chosen = version.value_or(next_version(folder(name)));
      const fs::path path = folder(name) / (chosen + text_end);
      if (::link(file->c_str(), path.c_str()) == 0) return chosen;
      if (errno != EEXIST) return system_error("add " + name + ":" + chosen + " to the catalogue");
      if (version) {
        return Error{word_ + " " + name + ":" + chosen +
                     " exists, and a version never changes; choose another, or leave 'version' "
                     "out"};
      }
    }
    return Error{"no free version of " + name};
  };
  auto chosen = place();
  ::unlink(file->c_str());
  if (chosen) sync_folder(folder(name));
  return chosen;
}

std::vector<CatalogueEntry> Catalogue::versions(const std::string& name) const {
  std::vector<CatalogueEntry> entries;
  if (!is_catalogue_name(name)) return entries;
  for (const std::string& version : listed_names(folder(name), text_end)) {
    entries.push_back(entry_of(folder(name), version));
  }
  std::ranges::sort(entries, {}, [](const CatalogueEntry& entry) {
    return std::tuple(entry.created_ns, number_of(entry.version), entry.version);
  });
  return entries;
}

Result<CatalogueEntry> Catalogue::find(const std::string& name, std::string_view which) const {
  const auto entries = versions(name);
  if (entries.empty()) return not_found(name);
  std::string version(which);
  if (which.empty() || which == "@latest") {
    const CatalogueEntry* newest = newest_of(entries);
    if (newest != nullptr) return *newest;
    return Error{"every version of " + word_ + " " + quoted_text(name) +
                 " is archived; name one, or restore it"};
  }
  if (const std::string label(which.substr(1)); which[0] == '@' && is_catalogue_name(label)) {
    version = trimmed(text_of_file(folder(name) / (label + label_end)));
  }
  const auto found = std::ranges::find(entries, version, &CatalogueEntry::version);
  if (found != entries.end()) return *found;
  std::vector<std::string> known;
  for (const CatalogueEntry& entry : entries) known.push_back(entry.version);
  if (known.size() > 10) known.erase(known.begin(), known.end() - 10);
  return Error{word_ + " " + quoted_text(name) + " has no version " + quoted_text(which) +
               "; the newest are " + joined(known)};
}

std::vector<std::string> Catalogue::names() const {
  return listed_names(root_);
}

std::vector<CatalogueEntry> Catalogue::newest() const {
  std::vector<CatalogueEntry> all;
  for (const std::string& name : names()) {
    const auto entries = versions(name);
    const CatalogueEntry* newest = newest_of(entries);
    if (!entries.empty()) all.push_back(newest != nullptr ? *newest : entries.back());
  }
  return all;
}

Status Catalogue::set_archived(const std::string& name, const std::string& version,
                               bool archived) const {
  std::vector<CatalogueEntry> chosen = versions(name);
  if (chosen.empty()) return not_found(name);
  if (!version.empty()) {
    auto found = find(name, version);
    if (!found) return found.error();
    chosen = {std::move(*found)};
  }
  for (const CatalogueEntry& entry : chosen) {
    const fs::path marker = folder(name) / (entry.version + archived_end);
    const bool done = archived ? replace_file(marker, "", 0600, Durable::on_disk)
                               : ::unlink(marker.c_str()) == 0 || errno == ENOENT;
    if (!done) return system_error("change " + marker.string());
  }
  return Done{};
}

Status Catalogue::set_label(const std::string& name, const std::string& version,
                            const std::string& label) const {
  if (versions(name).empty()) return not_found(name);
  if (label == "latest")
    return Error{"'latest' is always the newest version; choose another label"};
  if (!is_catalogue_name(label)) {
    return Error{quoted_text(label) +
                 " is not a label; expected letters, digits, '_', '-' and '.'"};
  }
  const fs::path file = folder(name) / (label + label_end);
  if (version.empty()) {
    if (::unlink(file.c_str()) == 0) return Done{};
    if (errno != ENOENT) return system_error("remove " + file.string());
    return Error{word_ + " " + quoted_text(name) + " has no label " + quoted_text(label)};
  }
  const auto entry = find(name, version);
  if (!entry) return entry.error();
  if (replace_file(file, entry->version + "\n", 0600, Durable::on_disk)) return Done{};
  return system_error("write " + file.string());
}

std::vector<std::string> Catalogue::labels(const CatalogueEntry& entry) const {
  auto labels = listed_names(folder(entry.name), label_end);
  std::erase_if(labels, [&](const std::string& label) {
    return trimmed(text_of_file(folder(entry.name) / (label + label_end))) != entry.version;
  });
  return labels;
}

Status Catalogue::remove(const std::string& name) const {
  if (versions(name).empty()) return not_found(name);
  std::error_code failure;
  fs::remove_all(folder(name), failure);
  if (failure) return Error{"cannot remove " + folder(name).string() + ": " + failure.message()};
  return Done{};
}

}  // namespace muster
