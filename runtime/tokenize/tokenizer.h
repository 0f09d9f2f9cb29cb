// Text to tokens and back: byte-level byte-pair encoding, as GPT-2 has it.
//
// A text is cut into words (text_blocks.h). In each word, beginning with one token per byte, the
// pair of neighbours whose merge stands first in the list is joined, the leftmost such pair first,
// until no pair of the list is left (Sennrich, Haddow, Birch: "Neural Machine Translation of Rare
// Words with Subword Units", 2016). Without merges a token is a byte. The end of a document is a
// token of its own that no text leads to; the tokenizer of bytes takes byte 0 for it.
//
// A Tokenizer never changes; each thread encodes through an Encoder of its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

// A hash table from short byte strings to values, for millions of words.
//
// Keys are copied into one arena; open addressing with linear probing, at most half full. Entries
// are never removed one by one. Not for several threads.
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

using TokenPair = std::pair<std::uint32_t, std::uint32_t>;

inline constexpr const char* usual_end_of_document = "<|endoftext|>";

// What makes a tokenizer.
struct TokenizerParts {
  std::vector<std::string> tokens;  // the bytes of each token, by token; special ones stand as text
  std::vector<TokenPair> merges;    // the first is joined first
  std::vector<std::uint32_t> special;  // tokens that no text leads to, rising
  std::uint32_t end_of_document = 0;
};

class Tokenizer {
 public:
  // A fault when a byte has no token, a merge leads to none, or two tokens are the same bytes.
  static Checked<Tokenizer> make(TokenizerParts parts);

  // One token per byte, the end of a document is byte 0.
  static Tokenizer of_bytes();

  const TokenizerParts& parts() const { return parts_; }
  std::size_t vocabulary() const { return parts_.tokens.size(); }
  std::uint32_t end_of_document() const { return parts_.end_of_document; }
  std::uint32_t token_of_byte(unsigned char byte) const { return byte_tokens_[byte]; }

  // The bytes of tokens below the vocabulary; special tokens are left out.
  std::string decode(const std::vector<std::uint32_t>& tokens) const;

  // Joins the tokens of one word in place.
  void merge_word(std::vector<std::uint32_t>& word) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    std::uint32_t token = 0;
  };

  Tokenizer() = default;
  const Merge* merge_of(std::uint32_t left, std::uint32_t right) const;
  void merge_short(std::vector<std::uint32_t>& word) const;
  void merge_long(std::vector<std::uint32_t>& word) const;

  TokenizerParts parts_;
  std::vector<std::uint32_t> byte_tokens_;  // [256]
  std::unordered_map<std::uint64_t, Merge> merges_;
};

// Encodes for one thread, remembering the words that it has seen.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends the tokens of `text`.
  void encode(std::string_view text, std::vector<std::uint32_t>& tokens);

 private:
  struct Known {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };

  void encode_word(std::string_view word, std::vector<std::uint32_t>& tokens);

  const Tokenizer& tokenizer_;
  WordTable<Known> known_;
  std::vector<std::uint32_t> known_tokens_;
  std::vector<std::uint32_t> word_;
};

// A pair of neighbouring tokens as one number, by which tables of pairs are looked up. Pure.

inline std::uint64_t token_pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

// Learning the merges of a tokenizer from text.
//
// The most frequent pair of neighbouring tokens in the words of the text becomes a token; then the
// counts of the pairs around it change, and so on. Of equally frequent pairs the one with the
// smaller tokens comes first, so that equal counts of words give equal merges, whatever the order
// of the text or the threads. Tokens 0 to 255 are the bytes, the end of a document is the last
// token.

inline constexpr std::size_t smallest_trained_vocabulary = 257;
inline constexpr std::size_t training_word_bytes = 256;  // longer words are cut for the counting

// How often each word occurs.
class WordCounts {
 public:
  void add_text(std::string_view text);
  void add(const WordCounts& other);

  struct Counted {
    std::string_view word;
    std::uint64_t count = 0;
  };
  // In the order of their bytes; valid until the next change.
  std::vector<Counted> sorted() const;

 private:
  void add_word(std::string_view word, std::uint64_t count);
  WordTable<std::uint64_t> table_;
};

// A tokenizer of `vocabulary` tokens; fewer when no pair occurs twice any more.
Tokenizer train_tokenizer(const WordCounts& words, std::size_t vocabulary);

}  // namespace muster
