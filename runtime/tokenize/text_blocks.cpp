#include "runtime/tokenize/text_blocks.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/protocol/json_depth.h"
#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/word_splitter.h"

namespace muster {
namespace {

constexpr std::uint64_t probe_bytes = 64 << 10;

}  // namespace

bool is_jsonl_file(const std::string& path) {
  return path.ends_with(".jsonl");
}

void for_each_json_document(const TextBlock& block, const std::string& field, NulInText nul,
                            const std::function<void(std::string_view)>& document) {
  std::string_view rest = block.content;
  for (std::uint64_t line = block.first_line; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
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
    auto file = CheckpointFile::open_for_reading(path);
    if (!file) throw StartError(file.reason());
    const auto size = file.value().size();
    if (!size) throw StartError(size.reason());
    std::string begin(std::min(size.value(), probe_bytes), '\0');
    if (auto got = file.value().read_at(0, begin.data(), begin.size()); !got) {
      throw StartError(got.reason());
    }
    if (begin.find('\0') != std::string::npos) {
      if (std::find(named_.begin(), named_.end(), path) == named_.end()) continue;
      throw StartError(path + " is not text (it holds a NUL byte)");
    }
    if (size.value() == 0) continue;
    file_ = std::move(file.value());
    file_bytes_ = size.value();
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
  if (auto got = file_->read_at(offset_, pending_.data() + before, bytes); !got) {
    throw StartError(got.reason());
  }
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

}  // namespace muster
