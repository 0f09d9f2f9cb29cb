#include "runtime/tokenize/text_files.h"

#include <algorithm>
#include <filesystem>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/data/token_dataset.h"

namespace muster {
namespace {

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
  auto content = read_checkpoint_text(path, limit_bytes);
  if (!content) throw StartError("--data: " + content.reason());
  return std::move(content.value());
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
