// Text to tokens and back: byte-level byte-pair encoding, as GPT-2 has it.
//
// A text is cut into words (word_splitter.h). In each word, beginning with one token per byte, the
// pair of neighbours whose merge stands first in the list is joined, the leftmost such pair first,
// until no pair of the list is left (Sennrich, Haddow, Birch: "Neural Machine Translation of Rare
// Words with Subword Units", 2016). Without merges a token is a byte. The end of a document is a
// token of its own that no text leads to; the tokenizer of bytes takes byte 0 for it.
//
// A Tokenizer never changes; each thread encodes through an Encoder of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

// Values of words, looked up without a copy of the word. Not for several threads.
struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const {
    return std::hash<std::string_view>()(word);
  }
};
template <class Value>
using WordTable = std::unordered_map<std::string, Value, WordHash, std::equal_to<>>;

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

}  // namespace muster
