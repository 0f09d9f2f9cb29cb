// A hash table from short byte strings to values, for millions of words.
//
// Keys are copied into one arena; open addressing with linear probing, at most half full. Entries
// are never removed one by one. Not for several threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

template <class Value>
class WordTable {
 public:
  struct Entry {
    std::uint64_t key_begin = 0;  // in the arena
    std::uint32_t key_bytes = 0;
    std::uint32_t hash = 0;
    Value value{};
  };

  WordTable() { clear(); }

  void clear() {
    slots_.assign(1 << 12, 0);
    entries_.clear();
    arena_.clear();
  }

  // The value of `key`, a new one at first; valid until the next call. `is_new` tells which.
  Value& at(std::string_view key, bool& is_new) {
    if (2 * entries_.size() >= slots_.size()) grow();
    const std::uint32_t hash = hash_of(key);
    std::size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      Entry& entry = entries_[slots_[slot] - 1];
      if (entry.hash == hash && key_of(entry) == key) {
        is_new = false;
        return entry.value;
      }
    }
    is_new = true;
    entries_.push_back({arena_.size(), static_cast<std::uint32_t>(key.size()), hash, Value{}});
    arena_.append(key);
    slots_[slot] = static_cast<std::uint32_t>(entries_.size());
    return entries_.back().value;
  }

  std::string_view key_of(const Entry& entry) const {
    return std::string_view(arena_).substr(entry.key_begin, entry.key_bytes);
  }

  // In the order in which they came.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  // Multiply and rotate, eight bytes at a time; no adversary is fought here.
  static std::uint32_t hash_of(std::string_view key) {
    std::uint64_t hash = key.size();
    while (!key.empty()) {
      std::uint64_t word = 0;
      const std::size_t bytes = key.size() < 8 ? key.size() : 8;
      std::memcpy(&word, key.data(), bytes);
      key.remove_prefix(bytes);
      hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 29;
    }
    return static_cast<std::uint32_t>((hash * 0xBF58476D1CE4E5B9ull) >> 32);
  }

  void grow() {
    slots_.assign(slots_.size() * 2, 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      std::size_t slot = entries_[i].hash & (slots_.size() - 1);
      while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::uint32_t>(i + 1);
    }
  }

  std::vector<std::uint32_t> slots_;  // index of an entry + 1, or 0; a power of two of them
  std::vector<Entry> entries_;
  std::string arena_;
};

}  // namespace muster
