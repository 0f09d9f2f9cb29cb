#include "runtime/tokenize/text_blocks.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/data/token_dataset.h"
#include "runtime/protocol/json_depth.h"
#include "runtime/tokenize/word_splitter.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

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
