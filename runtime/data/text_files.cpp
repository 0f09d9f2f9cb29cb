#include "runtime/data/text_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace muster {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

std::vector<std::string> files_below(const fs::path& directory) {
  std::vector<std::string> files;
  std::error_code code;
  fs::recursive_directory_iterator at(directory, code);
  for (const fs::recursive_directory_iterator end; !code && at != end; at.increment(code)) {
    if (is_hidden(at->path())) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      files.push_back(at->path().string());
    }
  }
  if (code) throw StartError(directory.string() + ": cannot be listed: " + code.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_whole(const std::string& path, std::uint64_t limit_bytes) {
  std::error_code code;
  const std::uint64_t bytes = fs::file_size(path, code);
  if (!code && bytes > limit_bytes) {
    throw StartError(path + ": the training text is larger than " +
                     std::to_string(limit_bytes >> 20) +
                     " MiB, which is the most that is held in memory");
  }
  std::ifstream input(path, std::ios::binary);
  std::ostringstream content;
  if (input.peek() != std::ifstream::traits_type::eof()) content << input.rdbuf();
  if (!input.is_open() || input.bad()) throw StartError(path + ": cannot be read");
  return std::move(content).str();
}

bool is_text(const std::string& content) {
  return content.find('\0') == std::string::npos;
}

}  // namespace

std::vector<std::string> find_data_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code code;
    if (fs::is_directory(path, code)) {
      const std::vector<std::string> below = files_below(path);
      files.insert(files.end(), below.begin(), below.end());
    } else if (fs::exists(path, code)) {
      files.push_back(path);
    } else {
      throw StartError("--data: " + path + " does not exist");
    }
  }
  return files;
}

std::string read_corpus(const std::vector<std::string>& paths, std::uint64_t limit_bytes) {
  if (paths.empty())
    throw StartError("--data: no training text was named; give files or directories");
  std::string corpus;
  for (const std::string& file : find_data_files(paths)) {
    const std::string content = read_whole(file, limit_bytes - corpus.size());
    if (is_text(content)) {
      if (!content.empty()) corpus += content + '\0';
    } else if (std::find(paths.begin(), paths.end(), file) != paths.end()) {
      throw StartError("--data: " + file + " is not text (it holds a NUL byte)");
    }
  }
  if (corpus.empty()) throw StartError("--data: no text found in " + paths.front());
  return corpus;
}

}  // namespace muster
