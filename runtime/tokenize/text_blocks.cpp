#include "runtime/tokenize/text_blocks.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "runtime/data/token_dataset.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/number_text.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

// Which code points above ASCII are letters (general category L) and which are numbers (N).
//
// From UnicodeData.txt of Unicode 14.0: how far it is from 0 to the first code point of a run of
// them, from there to the first behind it, to the next run, and so on.
constexpr std::string_view letters =
    "170 1 10 1 4 1 5 23 1 31 1 458 4 12 14 5 7 1 1 1 129 5 1 2 2 4 1 1 6 1 1 3 1 1 1 20 1 83 1 "
    "139 8 166 1 38 2 1 6 41 71 27 4 4 45 43 35 2 1 99 1 1 15 2 7 2 10 3 2 1 16 1 1 30 29 89 11 1 "
    "24 33 9 2 4 1 5 22 4 1 9 1 3 1 23 25 7 11 5 24 1 6 17 42 58 54 3 1 18 1 7 10 15 16 4 8 2 2 2 "
    "22 1 7 1 1 3 4 3 1 16 1 13 2 1 3 14 2 10 1 8 6 4 2 2 22 1 7 1 2 1 2 1 2 31 4 1 1 19 3 16 9 1 "
    "3 1 22 1 7 1 2 1 5 3 1 18 1 15 2 23 1 11 8 2 2 2 22 1 7 1 2 1 5 3 1 30 2 1 3 15 1 17 1 1 6 3 "
    "3 1 4 3 2 1 1 1 2 3 2 3 3 3 12 22 1 52 8 1 3 1 23 1 16 3 1 26 3 2 1 2 2 30 1 4 8 1 3 1 23 1 "
    "10 1 5 3 1 31 2 1 2 15 2 17 9 1 3 1 41 2 1 16 1 5 3 8 3 24 6 5 18 3 24 1 9 1 1 2 7 58 48 1 2 "
    "12 7 58 2 1 1 1 5 1 24 1 1 1 10 1 2 9 1 2 5 1 1 21 4 32 1 63 8 1 36 27 5 115 43 20 1 16 6 4 "
    "4 3 1 3 2 7 3 4 13 12 1 17 38 1 1 5 1 2 43 1 333 1 4 2 7 1 1 1 4 2 41 1 4 2 33 1 4 2 7 1 1 1 "
    "4 2 15 1 57 1 4 2 67 37 16 16 86 2 6 3 620 2 17 1 26 5 75 6 8 7 18 13 19 14 18 14 13 1 3 15 "
    "52 35 1 4 1 67 89 7 5 2 34 1 1 5 70 10 31 49 30 2 5 11 44 4 26 54 23 9 53 82 1 93 47 17 8 54 "
    "30 13 2 10 44 26 36 41 3 10 36 2 9 7 43 2 3 41 4 1 6 1 2 3 1 5 192 64 278 2 6 2 38 2 6 2 8 1 "
    "1 1 1 1 1 1 31 2 53 1 7 1 1 3 3 1 7 3 4 2 6 4 13 5 3 1 7 116 1 13 1 16 13 101 1 4 1 2 10 1 1 "
    "3 5 6 1 1 1 1 1 1 4 1 11 2 4 5 5 4 1 52 2 2683 229 6 4 3 2 12 38 1 1 5 1 2 56 7 1 16 23 9 7 "
    "1 7 1 7 1 7 1 7 1 7 1 7 1 7 80 1 469 2 42 5 5 2 4 86 6 3 1 90 1 4 5 43 1 94 17 32 48 16 512 "
    "6592 64 22157 67 46 2 269 3 16 10 2 20 47 16 31 2 70 49 9 2 103 2 64 5 2 1 1 1 5 24 16 1 3 1 "
    "4 1 23 29 52 14 50 62 6 3 1 1 2 11 28 10 23 25 29 7 47 28 1 16 5 1 10 10 5 1 41 23 3 1 8 20 "
    "23 3 1 3 50 1 1 3 2 2 5 2 1 1 1 24 3 2 11 7 3 12 6 2 6 2 6 9 7 1 7 1 43 1 14 6 115 29 11172 "
    "12 23 4 49 8452 366 2 106 38 7 12 5 5 1 1 10 1 13 1 5 1 1 1 2 1 2 1 108 33 363 18 64 2 54 40 "
    "12 116 5 1 135 36 26 6 26 11 89 3 6 2 6 2 6 2 3 35 12 1 26 1 19 1 2 1 15 2 14 34 123 389 29 "
    "3 49 47 32 13 20 1 8 6 38 10 30 2 36 4 8 48 158 18 36 4 36 4 40 8 52 12 11 1 15 1 7 1 2 1 11 "
    "1 15 1 7 1 2 67 311 9 22 10 8 24 6 1 42 1 9 69 6 2 1 1 44 1 2 3 1 2 23 10 23 9 31 65 19 1 2 "
    "10 22 10 26 70 56 6 2 64 1 15 4 1 3 1 29 42 29 3 29 35 8 1 28 27 54 10 22 10 19 13 18 110 73 "
    "55 51 13 51 13 36 348 42 6 2 78 29 10 1 8 22 42 18 46 21 27 23 12 53 57 2 2 1 13 45 32 25 26 "
    "36 29 1 2 1 8 35 3 1 12 48 14 4 21 1 1 1 35 18 1 25 84 7 1 1 1 4 1 15 1 10 7 47 38 8 2 2 2 "
    "22 1 7 1 2 1 5 3 1 18 1 12 5 158 53 18 4 20 3 30 48 20 2 1 1 184 47 41 4 36 48 20 1 59 43 13 "
    "1 71 27 37 7 185 44 116 64 31 8 2 1 2 8 1 2 1 24 15 1 1 1 94 8 2 39 16 1 1 1 28 1 10 40 7 1 "
    "21 1 11 46 19 1 18 73 263 9 1 37 17 1 49 30 112 7 1 2 1 38 21 1 25 6 1 2 1 32 14 1 327 19 "
    "189 1 79 922 230 196 2636 97 15 1071 4049 583 8633 569 7 31 17 79 17 30 18 48 16 4 31 21 5 "
    "19 688 64 128 75 5 1 66 13 64 2 1 1 28 6136 8 1238 42 9 8935 4 1 7 1 2 1 291 45 3 17 4 8 396 "
    "2308 107 5 13 3 9 7 10 5990 85 1 71 1 2 2 1 2 2 2 4 1 12 1 1 1 7 1 65 1 4 2 8 1 7 1 28 1 4 1 "
    "5 1 1 3 7 1 340 2 25 1 25 1 31 1 25 1 31 1 25 1 31 1 25 1 31 1 25 1 8 1844 31 481 45 10 7 16 "
    "1 321 30 18 44 1268 7 1 4 1 2 1 15 1 197 59 68 7 1 1204 4 1 27 1 2 1 1 2 1 1 10 1 4 1 1 1 1 "
    "6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 10 1 17 5 3 1 "
    "5 1 17 4420 42720 32 4153 7 222 2 5762 14 7473 3103 542 1506 4939";

constexpr std::string_view numbers =
    "178 2 5 1 2 3 1441 10 134 10 198 10 412 10 118 10 4 6 108 10 118 10 118 10 2 6 110 13 115 10 "
    "8 7 103 10 104 7 7 19 109 10 96 10 118 10 70 20 268 10 70 10 719 20 881 3 239 10 6 10 22 10 "
    "300 10 128 11 165 10 6 10 182 10 86 10 134 10 6 10 1046 1 3 6 6 10 198 51 2 5 726 60 78 22 "
    "630 30 1385 1 777 1 25 9 14 3 343 4 138 10 30 8 1 15 32 10 39 15 29536 10 188 10 320 6 154 "
    "10 38 10 198 10 22 10 86 10 406 10 21270 10 493 45 12 57 17 2 341 27 36 4 29 1 8 1 134 5 202 "
    "10 942 8 25 7 39 9 75 5 22 6 160 2 2 16 2 46 64 9 52 2 30 3 75 5 104 8 24 8 41 7 330 6 48 10 "
    "294 31 158 10 42 4 112 7 134 30 128 10 60 10 144 10 7 20 251 10 342 10 118 10 374 10 102 10 "
    "102 12 420 19 93 10 758 29 227 10 70 10 534 21 1067 111 17905 10 86 10 134 10 1 7 798 23 "
    "25673 20 108 25 1109 50 2368 10 422 10 1485 9 128 10 791 59 1 3 1 4 76 45 1 15 962 13 2787 "
    "10";

constexpr std::uint32_t plane_characters = 0x10000;
constexpr std::uint32_t malformed = 0xFFFFFFFF;

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

std::vector<std::uint32_t> borders_of(std::string_view steps) {
  std::vector<std::uint32_t> borders;
  std::uint32_t at = 0;
  for (const std::string_view step : words_in(steps)) {
    borders.push_back(at += static_cast<std::uint32_t>(read_whole_number(step).value()));
  }
  return borders;
}

bool lies_in(std::uint32_t code, std::span<const std::uint32_t> borders) {
  return (std::ranges::upper_bound(borders, code) - borders.begin()) % 2 == 1;
}

CharacterClass class_by_search(std::uint32_t code) {
  static const auto of_letters = borders_of(letters), of_numbers = borders_of(numbers);
  if (is_space(code)) return CharacterClass::space;
  if (code < 128) {
    const std::uint32_t lower = code | 0x20;
    if (lower >= 'a' && lower <= 'z') return CharacterClass::letter;
    return code >= '0' && code <= '9' ? CharacterClass::number : CharacterClass::other;
  }
  if (lies_in(code, of_letters)) return CharacterClass::letter;
  return lies_in(code, of_numbers) ? CharacterClass::number : CharacterClass::other;
}

// The plane that nearly all text is written in, looked up instead of searched.
const std::vector<CharacterClass>& classes_of_first_plane() {
  static const std::vector<CharacterClass> classes = [] {
    std::vector<CharacterClass> all(plane_characters);
    for (std::uint32_t code = 0; code < plane_characters; ++code) all[code] = class_by_search(code);
    return all;
  }();
  return classes;
}

struct Decoded {
  std::uint32_t code = malformed;
  std::size_t bytes = 1;
};

// The first character.
Decoded decode(std::string_view text) {
  const std::size_t length = utf8_length(text);
  if (length == 0) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::uint32_t code = byte(0) & (length == 1 ? 0x7Fu : 0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return {code, length};
}

constexpr std::uint64_t probe_bytes = 64 << 10;

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// Whether `path` is one of `left_out`, however each is spelled.
bool is_among(const fs::path& path, const std::vector<std::string>& left_out) {
  return std::any_of(left_out.begin(), left_out.end(), [&](const std::string& other) {
    std::error_code code;
    return fs::equivalent(path, other, code);
  });
}

std::vector<std::string> files_below(const fs::path& directory,
                                     const std::vector<std::string>& left_out) {
  std::vector<std::string> files;
  std::error_code code;
  fs::recursive_directory_iterator at(directory, code);
  for (const fs::recursive_directory_iterator end; !code && at != end; at.increment(code)) {
    std::error_code kind;  // of an entry that leads nowhere or in a circle: it is no file
    if (at->is_directory(kind)) {
      if (is_hidden(at->path()) || is_among(at->path(), left_out)) at.disable_recursion_pending();
    } else if (at->path().filename() == dataset_index_name ||
               at->path().filename() == dataset_unfinished_name) {
      throw StartError(at->path().parent_path().string() +
                       " holds tokens and is in a directory of text: name it alone, or move it");
    } else if (!is_hidden(at->path()) && at->is_regular_file(kind)) {
      files.push_back(at->path().string());
    }
  }
  if (code) throw StartError(directory.string() + ": cannot be listed: " + code.message());
  std::sort(files.begin(), files.end());
  return files;
}

// Opening a pipe or a device would wait or never end.
std::string read_whole(const std::string& path, std::uint64_t limit_bytes) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) {
    throw StartError("--data: " + path + " is neither a regular file nor a directory");
  }
  if (fs::file_size(path, code) > limit_bytes && !code) {
    throw StartError("--data: with " + path +
                     " the text is more than is held in memory: tokenize it first (muster-train "
                     "tokenize --out DIR FILES), then train on --data DIR");
  }
  return needed(read_checkpoint_text(path, limit_bytes), "--data: ");
}

bool is_text(const std::string& content) {
  return content.find('\0') == std::string::npos;
}

std::vector<std::string> named_files(const std::vector<std::string>& paths,
                                     const std::vector<std::string>& left_out) {
  try {
    return find_data_files(paths, left_out);
  } catch (const StartError& error) {
    throw StartError(std::string("--data: ") + error.what());
  }
}

void append_documents(const std::string& path, const std::string& content,
                      const std::string& jsonl_field, std::string& corpus) {
  const auto append = [&](std::string_view document) {
    corpus += document;
    corpus.push_back('\0');
  };
  if (is_jsonl_file(path)) {
    for_each_json_document({.path = path, .content = content}, jsonl_field, NulInText::refused,
                           append);
  } else if (!content.empty()) {
    append(content);
  }
}

}  // namespace

CharacterClass character_class(std::uint32_t code_point) {
  if (code_point < plane_characters) return classes_of_first_plane()[code_point];
  return code_point == malformed ? CharacterClass::other : class_by_search(code_point);
}

WordSplitter::Character WordSplitter::character_at(std::size_t at) const {
  static const CharacterClass* const first_plane = classes_of_first_plane().data();
  if (at >= text_.size()) return {};
  const auto byte = static_cast<unsigned char>(text_[at]);
  if (byte < 0x80) return {first_plane[byte], 1};
  const Decoded decoded = decode(text_.substr(at));
  return {character_class(decoded.code), decoded.bytes};
}

std::size_t WordSplitter::contraction_at(std::size_t at) const {
  if (text_[at] != '\'') return 0;
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text_.substr(at, ending.size()) == ending) return ending.size();
  }
  return 0;
}

std::size_t WordSplitter::end_of_run(std::size_t at, CharacterClass kind) const {
  for (Character next = character_at(at); next.bytes > 0 && next.kind == kind;
       next = character_at(at)) {
    at += next.bytes;
  }
  return at;
}

// All white space, but the last character of it when something follows that could take it along.
std::size_t WordSplitter::end_of_spaces(std::size_t at) const {
  std::size_t last = at;
  std::size_t end = at;
  for (Character next = character_at(end); next.bytes > 0 && next.kind == CharacterClass::space;
       next = character_at(end)) {
    last = end;
    end += next.bytes;
  }
  return end < text_.size() && last > at ? last : end;
}

std::string_view WordSplitter::next() {
  if (at_ >= text_.size()) return {};
  const std::size_t begin = at_;
  if (const std::size_t bytes = contraction_at(begin); bytes > 0) {
    at_ += bytes;
    return text_.substr(begin, bytes);
  }
  const std::size_t after_blank = begin + (text_[begin] == ' ' ? 1 : 0);
  const Character first = character_at(after_blank);
  at_ = first.bytes > 0 && first.kind != CharacterClass::space
            ? end_of_run(after_blank + first.bytes, first.kind)
            : end_of_spaces(begin);
  return text_.substr(begin, at_ - begin);
}

std::size_t last_word_border(std::string_view text) {
  for (std::size_t at = text.size(); at-- > 1;) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80 || !is_space(byte)) continue;
    std::size_t before = at - 1;  // begin of the character before, if it is well formed
    while (before > 0 && at - before < 4 && (text[before] & 0xC0) == 0x80) --before;
    const Decoded decoded = decode(text.substr(before));
    const bool whole = decoded.code != malformed && before + decoded.bytes == at;
    if (whole && character_class(decoded.code) != CharacterClass::space) return at;
  }
  return 0;
}

bool is_jsonl_file(const std::string& path) {
  return path.ends_with(".jsonl");
}

void for_each_json_document(const TextBlock& block, const std::string& field, NulInText nul,
                            const std::function<void(std::string_view)>& document) {
  std::string_view rest = block.content;
  for (std::uint64_t line = block.first_line; !rest.empty(); ++line) {
    const std::string_view text = take_until(rest, '\n');
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = block.path + ":" + std::to_string(line) + ": ";
    if (nests_too_deeply(text)) throw StartError(where + "is nested too deeply");
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) {
      throw StartError(where + "is not JSON in UTF-8: mend the line, or omit this file");
    }
    const auto found = json.is_object() ? json.find(field) : json.end();
    if (!json.is_object() || found == json.end() || !found->is_string()) {
      throw StartError(where + "is no JSON object with the text \"" + field +
                       "\": name its member with --jsonl-field, or omit this file");
    }
    const auto& content = found->get_ref<const std::string&>();
    if (nul == NulInText::refused && content.find('\0') != std::string::npos) {
      throw StartError(where +
                       "holds a NUL character, which ends a document where tokens are bytes: take "
                       "it out, or tokenize with --train or --tokenizer");
    }
    if (!content.empty()) document(content);
  }
}

TextBlockReader::TextBlockReader(std::vector<std::string> files, std::vector<std::string> named)
    : files_(std::move(files)), named_(std::move(named)) {}

// Opens the next file that is text; false when there is none.
bool TextBlockReader::open_next() {
  while (next_file_ < files_.size()) {
    const std::string& path = files_[next_file_++];
    std::error_code code;
    // Opening a pipe or a device would wait or never end.
    if (!std::filesystem::is_regular_file(path, code)) {
      throw StartError(path + " is neither a regular file nor a directory");
    }
    CheckpointFile file = needed(CheckpointFile::open_for_reading(path));
    const std::uint64_t size = needed(file.size());
    std::string begin(std::min(size, probe_bytes), '\0');
    needed(file.read_at(0, begin.data(), begin.size()));
    if (begin.find('\0') != std::string::npos) {
      if (std::find(named_.begin(), named_.end(), path) == named_.end()) continue;
      throw StartError(path + " is not text (it holds a NUL byte)");
    }
    if (size == 0) continue;
    file_ = std::move(file);
    file_bytes_ = size;
    offset_ = 0;
    line_ = 1;
    begins_document_ = true;
    return true;
  }
  return false;
}

void TextBlockReader::read_more() {
  const std::uint64_t bytes = std::min(text_block_bytes, file_bytes_ - offset_);
  const std::size_t before = pending_.size();
  pending_.resize(before + bytes);
  needed(file_->read_at(offset_, pending_.data() + before, bytes));
  if (const std::size_t nul = pending_.find('\0', before); nul != std::string::npos) {
    throw StartError(files_[next_file_ - 1] + ": byte " + std::to_string(offset_ + nul - before) +
                     ": is not text (it holds a NUL byte here)");
  }
  offset_ += bytes;
  bytes_read_ += bytes;
}

// Where the text that was read may end a block; 0 when it has to go on.
std::size_t TextBlockReader::cut_of_text() const {
  if (is_at_end()) return pending_.size();
  const std::size_t border = last_word_border(pending_);
  if (border > 0 || pending_.size() < longest_text_block_bytes) return border;
  return pending_.size();
}

bool TextBlockReader::next(TextBlock& block) {
  if (!file_ && !open_next()) return false;
  block.path = files_[next_file_ - 1];
  block.is_jsonl = is_jsonl_file(block.path);
  block.first_line = line_;
  std::size_t cut = 0;
  while (cut == 0) {
    const std::size_t seen = pending_.size();  // without an end of a line
    read_more();
    if (!block.is_jsonl) {
      cut = cut_of_text();
    } else if (is_at_end()) {
      cut = pending_.size();
    } else {
      const std::size_t end = std::string_view(pending_).substr(seen).rfind('\n');
      if (end != std::string_view::npos) cut = seen + end + 1;
      if (cut == 0 && pending_.size() > longest_json_line_bytes) {
        throw StartError(block.path + ":" + std::to_string(line_) + ": the line is longer than " +
                         std::to_string(longest_json_line_bytes) + " bytes");
      }
    }
  }
  block.content = pending_.substr(0, cut);
  pending_.erase(0, cut);
  line_ += static_cast<std::uint64_t>(std::count(block.content.begin(), block.content.end(), '\n'));
  const bool is_last = is_at_end() && pending_.empty();
  block.begins_document = begins_document_;
  block.ends_document = is_last;
  begins_document_ = is_last;
  if (is_last) file_.reset();
  return true;
}

std::vector<std::string> find_data_files(const std::vector<std::string>& paths,
                                         const std::vector<std::string>& left_out) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code code;
    if (fs::is_directory(path, code)) {
      const std::vector<std::string> below = files_below(path, left_out);
      files.insert(files.end(), below.begin(), below.end());
    } else if (fs::exists(path, code)) {
      files.push_back(path);
    } else {
      throw StartError(path + " does not exist");
    }
  }
  return files;
}

std::string read_corpus(const std::vector<std::string>& paths, std::uint64_t limit_bytes,
                        const std::vector<std::string>& left_out, const std::string& jsonl_field) {
  if (paths.empty())
    throw StartError("--data: no training text was named; give files or directories");
  std::string corpus;
  for (const std::string& file : named_files(paths, left_out)) {
    const std::string content =
        read_whole(file, limit_bytes - std::min<std::uint64_t>(limit_bytes, corpus.size()));
    if (is_text(content)) {
      append_documents(file, content, jsonl_field, corpus);
    } else if (std::find(paths.begin(), paths.end(), file) != paths.end()) {
      throw StartError("--data: " + file + " is not text (it holds a NUL byte)");
    }
  }
  if (corpus.empty()) throw StartError("--data: no text found in " + paths.front());
  return corpus;
}

}  // namespace muster
