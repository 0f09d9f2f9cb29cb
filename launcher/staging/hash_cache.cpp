#include "launcher/staging/hash_cache.h"

#include <charconv>

#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view first_line = "muster hash cache 1\n";

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (code != std::errc{} || length >= text.size() || *end != ' ') return false;
  text.remove_prefix(length + 1);
  return true;
}

}  // namespace

HashCache HashCache::load(const fs::path& file) {
  HashCache cache;
  const std::string content = text_of_file(file);
  std::string_view text = content;
  if (!text.starts_with(first_line)) return cache;
  text.remove_prefix(first_line.size());
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos || !cache.read_record(text.substr(0, end))) return {};
    text.remove_prefix(end + 1);
  }
  return cache;
}

bool HashCache::read_record(std::string_view record) {
  const std::size_t space = record.find(' ');
  if (space == std::string_view::npos || !is_content_hash(record.substr(0, space))) return false;
  Entry entry{{}, std::string(record.substr(0, space))};
  record.remove_prefix(space + 1);
  FileFacts& facts = entry.facts;
  if (!take_number(record, facts.size_bytes) || !take_number(record, facts.modified_ns) ||
      !take_number(record, facts.changed_ns) || !take_number(record, facts.inode) ||
      !take_number(record, facts.device)) {
    return false;
  }
  entries_.insert_or_assign(std::string(record), std::move(entry));
  return true;
}

void HashCache::save(const fs::path& file) const {
  std::string text(first_line);
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
