// The same random trees and ignore files, read by muster and by git: both must leave out the same.
#include <fcntl.h>
#include <sys/wait.h>

#include <random>

#include "launcher/staging/source_tree.h"
#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// Exit code of `git <words>` in `directory`; 127 when there is no git.
int git(const fs::path& directory, std::vector<const char*> words, const fs::path& in,
        const fs::path& out) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::chdir(directory.c_str()) != 0) ::_exit(126);
    ::setenv("HOME", directory.c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", directory.c_str(), 1);
    ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    ::unsetenv("GIT_DIR");
    ::dup2(::open(in.c_str(), O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open("/dev/null", O_WRONLY), 2);
    words.insert(words.begin(), "git");
    words.push_back(nullptr);
    ::execvp("git", const_cast<char**>(words.data()));
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

class RandomTree {
 public:
  explicit RandomTree(unsigned seed) : random_(seed) {}

  void make(const Folder& folder, const std::string& prefix, int depth) {
    for (int i = 0; i < 5; ++i) {
      const std::string path = prefix + name();
      if (fs::exists(folder / path)) continue;
      if (depth < 3 && pick(3) == 0) {
        folder.directory(path);
        make(folder, path + "/", depth + 1);
      } else {
        folder.write(path, "");
        files_.push_back(path);
      }
    }
    if (depth == 0 || pick(4) == 0) folder.write(prefix + ".gitignore", rules());
  }
  const std::vector<std::string>& files() const { return files_; }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string name() {
    static const std::vector<std::string> parts{"a", "b", "ab", "x.o", "a b", "#c", "!d", "[e]"};
    return parts[static_cast<std::size_t>(pick(static_cast<int>(parts.size())))];
  }
  std::string piece() {
    static const std::vector<std::string> parts{"a",     "b",    "*",    "**",     "a*",  "*b",
                                                "?",     "[ab]", "[!a]", "*.o",    "a b", "\\#c",
                                                "[[]e]", "x.*",  "a**b", "[a-b]*", "ab",  "\\!d"};
    return parts[static_cast<std::size_t>(pick(static_cast<int>(parts.size())))];
  }
  std::string rules() {
    std::string text;
    for (int line = pick(5); line >= 0; --line) {
      if (pick(4) == 0) text += '!';
      if (pick(4) == 0) text += '/';
      text += piece();
      for (int more = pick(3); more > 0; --more) text += "/" + piece();
      if (pick(4) == 0) text += '/';
      if (pick(6) == 0) text += "  ";
      text += pick(8) == 0 ? "\r\n" : "\n";
    }
    return text;
  }

  std::mt19937 random_;
  std::vector<std::string> files_;
};

std::set<std::string> ignored_by_git(const Folder& folder, const std::vector<std::string>& files) {
  std::string list;
  for (const std::string& file : files) list += file + '\0';
  folder.write("list", list);
  git(folder / "tree", {"check-ignore", "--no-index", "-z", "--stdin"}, folder / "list",
      folder / "answer");
  std::set<std::string> ignored;
  const std::string answer = folder.read("answer");
  for (std::size_t at = 0; at < answer.size();) {
    const std::size_t end = answer.find('\0', at);
    ignored.insert(answer.substr(at, end - at));
    at = end + 1;
  }
  return ignored;
}

std::set<std::string> ignored_by_muster(const Folder& folder,
                                        const std::vector<std::string>& files) {
  std::set<std::string> ignored(files.begin(), files.end());
  const auto walked = walk_source(folder / "tree", true);
  REQUIRE(walked);
  for (const SourceEntry& source : walked->entries) ignored.erase(source.entry.path);
  return ignored;
}

}  // namespace

TEST_CASE("muster leaves out what git ignores, in dozens of random trees") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    Folder folder;
    folder.directory("tree");
    const int made = git(folder / "tree", {"init", "-q"}, "/dev/null", "/dev/null");
    if (made == 127) {
      WARN("git is not installed: not compared");
      return;
    }
    REQUIRE(made == 0);
    RandomTree tree(seed);
    Folder& root = folder;
    tree.make(root, "tree/", 0);
    std::vector<std::string> files;
    for (const std::string& file : tree.files()) files.push_back(file.substr(5));
    INFO("seed " << seed << ", rules:\n" << folder.read("tree/.gitignore"));
    CHECK(ignored_by_muster(folder, files) == ignored_by_git(folder, files));
  }
}

}  // namespace muster
