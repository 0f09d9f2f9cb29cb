#include "launcher/transport/shell_quote.h"

#include <cstdlib>

#include "launcher/transport/remote_scripts.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

const std::vector<std::string> hostile_words{"",
                                             "plain",
                                             "two words",
                                             "it's",
                                             "$(touch /tmp/x)",
                                             "`id`",
                                             "a\\",
                                             "\\'",
                                             "!!",
                                             "-rf",
                                             "~",
                                             "*",
                                             "line\nbreak",
                                             "\"quoted\"",
                                             "a;b&c|d>e<f",
                                             "tab\tend",
                                             "\xc3\xa9\xff",
                                             "${HOME}",
                                             "'",
                                             "''",
                                             "'\\''",
                                             "a'b\"c\\d$e!f"};

std::string printed_by(const std::string& shell, const std::string& word) {
  return run_here({shell, "-c", "printf '%s.' " + shell_quote(word)});
}

}  // namespace

TEST_CASE("every shell here reads a quoted word back as it was") {
  for (const std::string shell : {"sh", "bash", "dash", "zsh", "fish"}) {
    if (std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) != 0) continue;
    for (const std::string& word : hostile_words) {
      INFO(shell << ": " << word);
      CHECK(printed_by(shell, word) == word + ".");
    }
  }
}

TEST_CASE("a command is its quoted words") {
  const std::vector<std::string> argv{"echo", "a b", "it's"};
  CHECK(shell_command(argv) == "'echo' 'a b' 'it'\\''s'");
}

TEST_CASE("the attach command passes hostile names through two shells") {
  TemporaryFolder folder;
  for (const std::string& name : hostile_words) {
    const std::string home = (folder.path() / ("home " + std::to_string(name.size()))).string();
    std::filesystem::create_directories(home + "/bin");
    const std::string binary = home + "/bin/muster-b1";
    write_text(binary, "#!/bin/sh\nprintf '%s.' \"$@\"\n");
    std::filesystem::permissions(binary, std::filesystem::perms(0755));
    const std::string command = attach_command({"", "b1", "c1", home}, NodeId{name});
    for (const std::string shell : {"sh", "bash"}) {
      CHECK(run_here({shell, "-c", command}) ==
            "MUSTER-SHELL\nagent.attach.--home." + home + ".--controller.c1.--node." + name + ".");
    }
  }
}

TEST_CASE("the home directory may be empty, start with a tilde, or be a path") {
  TemporaryFolder folder;
  ::setenv("HOME", folder.path().c_str(), 1);
  const auto pushed = [&](const std::string& home) {
    run_here({"sh", "-c", "printf abc | { " + push_command({"", "b1", "c1", home}, 3) + "; }"});
  };
  pushed("");
  pushed("~/else where");
  pushed((folder.path() / "absolute").string());
  CHECK(read_text(folder.path() / ".muster/bin/muster-b1") == "abc");
  CHECK(read_text(folder.path() / "else where/bin/muster-b1") == "abc");
  CHECK(read_text(folder.path() / "absolute/bin/muster-b1") == "abc");
}

TEST_CASE("a push that is cut short leaves nothing behind") {
  TemporaryFolder folder;
  const std::string home = (folder.path() / "home").string();
  const std::string command =
      "printf ab | { " + push_command({"", "b1", "c1", home}, 3) + "; }; true";
  CHECK_THAT(run_here({"sh", "-c", command}), ContainsSubstring("got 2 of 3 bytes"));
  CHECK(std::filesystem::is_empty(home + "/bin"));
}

}  // namespace muster
