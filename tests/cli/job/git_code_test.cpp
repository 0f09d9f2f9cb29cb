// Code from a git repository: which texts are taken, and what a clone holds, of repositories made
// here.
#include "cli/job/submission.h"

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;
namespace fs = std::filesystem;

namespace {

// A repository with a branch `main`, a tag `one` before its last commit, and a bare copy of it.
struct Origin {
  Origin() {
    in("init -q -b main .");
    write("train.py", "1");
    in("add . && git commit -q -m one && git tag one");
    write("train.py", "2");
    in("commit -q -a -m two");
    publish();
  }

  void in(const std::string& verb) const {
    const std::string author = "-c user.name=t -c user.email=t@t";
    std::string words = verb;
    for (std::size_t at = 0; (at = words.find("&& git ", at)) != words.npos; at += 7) {
      words.insert(at + 7, author + ' ');
    }
    const std::string line =
        "cd " + work().string() + " && git " + author + ' ' + words + " >/dev/null 2>&1";
    REQUIRE(std::system(line.c_str()) == 0);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(work() / name) << text;
  }
  void publish() const { in("clone -q --bare . ../bare.git"); }

  fs::path work() const {
    fs::create_directories(folder.path() / "work");
    return folder.path() / "work";
  }
  std::string url(const std::string& ref = "") const {
    return "git+file://" + (folder.path() / "bare.git").string() + (ref.empty() ? "" : '@' + ref);
  }

  Folder folder;
};

std::string content(const GitCode& code) {
  std::ifstream file(code.directory() / "train.py");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const std::string& text) {
  const auto code = GitCode::clone(text);
  return code ? "" : code.error().message;
}

}  // namespace

TEST_CASE("a reference stands after the last @ of the path") {
  const auto place = [](const std::string& text) {
    const auto made = git_place(text);
    REQUIRE(made);
    return made->url + " " + made->ref;
  };
  CHECK(place("git+https://github.com/a/b.git@v1.2") == "https://github.com/a/b.git v1.2");
  CHECK(place("git+https://github.com/a/b") == "https://github.com/a/b ");
  CHECK(place("git+ssh://git@github.com/a/b@feature/x") == "ssh://git@github.com/a/b feature/x");
  CHECK(place("git://host/a/b@0123abc") == "git://host/a/b 0123abc");
}

TEST_CASE("what is no plain address of a repository is refused, and nothing runs") {
  for (const char* text :
       {"git+ext::sh -c touch% /tmp/x", "git+--upload-pack=x", "git+/srv/repository",
        "git+ftp://h/a", "git+https://h/a@--upload-pack=x", "git+https://h/a@a..b",
        "git+https://h/a@a b", "git+ssh://-oProxyCommand=x/a", "git+https://me:secret@h/a",
        "git+https://h/a\n@main"}) {
    INFO(text);
    CHECK(!git_place(text));
    CHECK_THAT(refusal(text), ContainsSubstring("cannot clone the code: "));
    CHECK_THAT(refusal(text), !ContainsSubstring("secret"));
  }
}

TEST_CASE("a clone holds the commit that was asked for, and goes with its owner") {
  const Origin origin;
  fs::path was;
  {
    const auto newest = GitCode::clone(origin.url());
    REQUIRE(newest);
    CHECK(content(*newest) == "2");
    CHECK(newest->commit().size() == 40);
    const auto tag = GitCode::clone(origin.url("one"));
    REQUIRE(tag);
    CHECK(content(*tag) == "1");
    const auto by_commit = GitCode::clone(origin.url(tag->commit()));
    REQUIRE(by_commit);
    CHECK(content(*by_commit) == "1");
    const auto by_short = GitCode::clone(origin.url(tag->commit().substr(0, 8)));
    REQUIRE(by_short);
    CHECK(by_short->commit() == tag->commit());
    was = newest->directory();
    CHECK(fs::exists(was));
  }
  CHECK(!fs::exists(was));
}

TEST_CASE("a clone that cannot be says why in a sentence and leaves nothing") {
  const Origin origin;
  CHECK_THAT(refusal(origin.url("nowhere")),
             ContainsSubstring("no branch, tag or commit 'nowhere'"));
  CHECK_THAT(refusal("git+file:///nowhere/at/all"), ContainsSubstring("No such file or directory"));
  origin.in("rm -q --cached train.py");
  fs::create_symlink("/etc/passwd", origin.work() / "link");
  origin.in("add link && git commit -q -m three && git push -q ../bare.git main");
  CHECK_THAT(refusal(origin.url()), ContainsSubstring("its link 'link' leads out of it"));
}

TEST_CASE("another user's repository on this machine is refused") {
  if (::geteuid() != 0) SUCCEED("only root can give a directory away");
  const Origin origin;
  if (::chown((origin.folder.path() / "bare.git").c_str(), 4242, 4242) != 0) return;
  CHECK_THAT(refusal(origin.url()), ContainsSubstring("belongs to"));
}
