// `code: git+URL[@REF]`: the repository, cloned where the job is submitted by the user's own git
// with the user's own credentials, and the commit that the reference was. Blocks for minutes at
// most; nothing is asked. What a job file names is a stranger's word: only plain transports are
// taken.
#pragma once

#include <filesystem>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

struct GitPlace {
  std::string url;
  std::string ref;  // a branch, a tag or a commit; empty: what the repository has checked out
};
// The Error says what is wrong with the text. Pure.
Result<GitPlace> git_place(const std::string& text);

// A clone in a temporary directory, which goes with it.
class GitCode {
 public:
  static Result<GitCode> clone(const std::string& text);
  ~GitCode();
  GitCode(GitCode&& other) noexcept;
  GitCode& operator=(GitCode&&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  const std::string& commit() const { return commit_; }

 private:
  explicit GitCode(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::filesystem::path directory_;
  std::string commit_;
};

}  // namespace muster
