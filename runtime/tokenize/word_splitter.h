// Cutting text into words, inside which alone a tokenizer merges bytes.
//
// The words are those of GPT-2's pattern
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// with the letters, numbers and white space of Unicode. A byte that is
// not part of well-formed UTF-8 counts as a character that is none of these. Words follow each
// other without a gap, so that joining them gives the text back, whatever its bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

enum class CharacterClass : std::uint8_t { other, letter, number, space };

CharacterClass character_class(std::uint32_t code_point);

class WordSplitter {
 public:
  explicit WordSplitter(std::string_view text) : text_(text) {}

  // The next word; empty at the end of the text.
  std::string_view next();

 private:
  struct Character {
    CharacterClass kind = CharacterClass::other;
    std::size_t bytes = 0;  // 0 at the end of the text
  };

  Character character_at(std::size_t at) const;
  std::size_t contraction_at(std::size_t at) const;
  std::size_t end_of_run(std::size_t at, CharacterClass kind) const;
  std::size_t end_of_spaces(std::size_t at) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

// Where `text` may be cut so that its parts have the words of the whole: the last place where ASCII
// white space follows something else. 0 when there is none.
std::size_t last_word_border(std::string_view text);

}  // namespace muster
