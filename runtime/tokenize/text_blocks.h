// The documents of text and JSONL files in blocks of a bounded size, for work in several threads.
//
// A text file is one document; a file named *.jsonl holds one per line, the text of one member of a
// JSON object. Blocks follow from the files alone, never from the number of threads. A text that is
// longer than a block is cut where the words on both sides stay what they were;
// after 16 MiB without such a place it is cut anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/start_error.h"

namespace muster {

// Cutting text into words, inside which alone a tokenizer merges bytes.
//
// The words are those of GPT-2's pattern
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// with the letters, numbers and white space of Unicode. A byte that is
// not part of well-formed UTF-8 counts as a character that is none of these. Words follow each
// other without a gap, so that joining them gives the text back, whatever its bytes. Pure.

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

inline constexpr std::uint64_t text_block_bytes = 1 << 20;
inline constexpr std::uint64_t longest_text_block_bytes = 16 << 20;
inline constexpr std::uint64_t longest_json_line_bytes = 1ull << 30;
inline constexpr const char* usual_jsonl_field = "text";

struct TextBlock {
  std::string path;
  std::string content;
  bool is_jsonl = false;  // whole lines, each a document
  std::uint64_t first_line = 1;
  bool begins_document = true;
  bool ends_document = true;
};

bool is_jsonl_file(const std::string& path);

// What a NUL in a document means: with bytes as tokens it would be the end of the document.
enum class NulInText { refused, allowed };

// Calls `document` with the text of every line that is not empty. Throws StartError, naming file
// and line, for one that is not an object with the text `field`. Empty texts are no documents.
void for_each_json_document(const TextBlock& block, const std::string& field, NulInText nul,
                            const std::function<void(std::string_view)>& document);

// Reads files one after the other.
class TextBlockReader {
 public:
  // Of `files` those that are not text (a NUL byte in the first 64 KiB) are passed over, or refused
  // when they are among `named`.
  TextBlockReader(std::vector<std::string> files, std::vector<std::string> named);

  // The next block; false at the end. Throws StartError when a file cannot be read, or turns out to
  // hold a NUL byte.
  bool next(TextBlock& block);

  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  bool open_next();
  void read_more();
  bool is_at_end() const { return offset_ == file_bytes_; }
  std::size_t cut_of_text() const;

  std::vector<std::string> files_;
  std::vector<std::string> named_;
  std::size_t next_file_ = 0;
  std::optional<CheckpointFile> file_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t offset_ = 0;  // bytes read of the file
  std::string pending_;       // read, and not yet in a block
  std::uint64_t line_ = 1;
  bool begins_document_ = true;
  std::uint64_t bytes_read_ = 0;
};

// Finding the text files that a run reads, always in the same order.
//
// Files named on the command line are taken as they are; directories are walked recursively, by
// sorted path, skipping hidden entries and the directories that the run itself writes to, whose
// content would make the text another one at every start. A file that holds a NUL byte is not text
// and is left out when it came from a directory, refused when it was named. A file named *.jsonl
// holds one document per line (text_blocks.h). Reads the file system; called once, at start.

// The files below `paths`, sorted within each path, without what lies in the directories
// `left_out`. Throws StartError for a path that does not exist.
std::vector<std::string> find_data_files(const std::vector<std::string>& paths,
                                         const std::vector<std::string>& left_out = {});

// The texts of all documents, each followed by one NUL byte as the end of a document. Throws
// StartError when a file cannot be read, when a named file is not text, when there is no text at
// all, or above `limit_bytes`.
std::string read_corpus(const std::vector<std::string>& paths, std::uint64_t limit_bytes,
                        const std::vector<std::string>& left_out = {},
                        const std::string& jsonl_field = usual_jsonl_field);

}  // namespace muster
