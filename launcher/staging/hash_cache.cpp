#include "launcher/staging/hash_cache.h"

#include <sstream>
#include <string_view>

#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view first_line = "muster hash cache 1";

}  // namespace

HashCache HashCache::load(const fs::path& file) {
  HashCache cache;
  std::istringstream in(text_of_file(file));
  std::string path;
  if (!std::getline(in, path) || path != first_line) return cache;
  while (in.peek() != std::istringstream::traits_type::eof()) {
    Entry entry;
    FileFacts& facts = entry.facts;
    in >> entry.hash >> facts.size_bytes >> facts.modified_ns >> facts.changed_ns >> facts.inode >>
        facts.device;
    if (in.get() != ' ' || !std::getline(in, path, '\0') || in.eof()) return {};
    if (!is_content_hash(entry.hash)) return {};
    cache.entries_.insert_or_assign(path, std::move(entry));
  }
  return cache;
}

void HashCache::save(const fs::path& file) const {
  std::string text = std::string(first_line) + "\n";
  for (const auto& [path, entry] : entries_) {
    text += entry.hash;
    for (const std::int64_t number :
         {entry.facts.size_bytes, entry.facts.modified_ns, entry.facts.changed_ns}) {
      text += ' ' + std::to_string(number);
    }
    text += ' ' + std::to_string(entry.facts.inode) + ' ' + std::to_string(entry.facts.device);
    text += ' ' + path + '\0';
  }
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  replace_file(file, text, 0600, Durable::in_cache);  // without it the next one hashes again
}

const std::string* HashCache::find(const std::string& path, const FileFacts& facts) const {
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second.facts != facts) return nullptr;
  return &found->second.hash;
}

void HashCache::remember(const std::string& path, const FileFacts& facts, std::string hash) {
  entries_.insert_or_assign(path, Entry{facts, std::move(hash)});
}

}  // namespace muster
