// A user's place of a test's own: a state directory, a cluster file, and words typed there. Verbs
// run inside the test as `main` runs them; what they write is caught.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/controller/store/home.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

namespace muster {

struct SaidByVerb {
  int code = 0;
  std::string out;
  std::string err;
  Document document() const { return Document::parse(out, nullptr, false); }
};

// While it lives a standard stream goes into a file.
class CaughtStream {
 public:
  CaughtStream(int stream, const std::filesystem::path& file) : stream_(stream) {
    saved_ = ::dup(stream);
    const int to = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(to, stream);
    ::close(to);
  }
  ~CaughtStream() {
    ::dup2(saved_, stream_);
    ::close(saved_);
  }
  CaughtStream(const CaughtStream&) = delete;
  CaughtStream& operator=(const CaughtStream&) = delete;

 private:
  int stream_;
  int saved_;
};

class CommandSite {
 public:
  explicit CommandSite(const std::string& cluster = "compute: {lab: {nodes: [\"h[1-3]\"]}}\n") {
    folder_.append("home/.keep", "");
    std::filesystem::permissions(home().root, std::filesystem::perms::owner_all);
    folder_.append("lab.yml", cluster);
    set("MUSTER_HOME", home().root.string());
    set("MUSTER_CONFIG", path("lab.yml"));
    set("TZ", "UTC");
    ::tzset();
  }
  ~CommandSite() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
    ::tzset();
  }
  CommandSite(const CommandSite&) = delete;
  CommandSite& operator=(const CommandSite&) = delete;

  Home home() const { return Home{folder_.path() / "home"}; }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string add(const std::string& name, const std::string& text) const {
    folder_.append(name, text);
    return path(name);
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  // `line`: words with blanks between; `more`: words that hold some.
  SaidByVerb type(const std::string& line, const std::vector<std::string>& more = {}) const {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    CommandLine verbs;
    add_verbs(verbs);
    const ParsedLine parsed = verbs.parse(words);
    if (!parsed.action) return {parsed.exit_code, "", parsed.text};
    return caught([&] { return parsed.action(verbs.common()); });
  }

  template <class Act>
  SaidByVerb caught(Act act) const {
    SaidByVerb said;
    {
      const CaughtStream out(STDOUT_FILENO, path("said-out"));
      const CaughtStream err(STDERR_FILENO, path("said-err"));
      try {
        said.code = act();
      } catch (const VerbEnd& end) {
        said.code = print_error(end.what(), end.exit_code, {});
      }
    }
    said.out = text_of("said-out");
    said.err = text_of("said-err");
    return said;
  }

 private:
  void set(const char* name, const std::string& value) {
    const char* old = std::getenv(name);
    before_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
    ::setenv(name, value.c_str(), 1);
  }

  Folder folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace muster
