// Learning the merges of a tokenizer from text.
//
// The most frequent pair of neighbouring tokens in the words of the text becomes a token; then the
// counts of the pairs around it change, and so on. Of equally frequent pairs the one with the
// smaller tokens comes first, so that equal counts of words give equal merges, whatever the order
// of the text or the threads. Tokens 0 to 255 are the bytes, the end of a document is the last
// token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/tokenize/tokenizer.h"

namespace muster {

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
