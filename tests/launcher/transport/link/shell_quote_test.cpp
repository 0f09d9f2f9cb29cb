#include "launcher/transport/link/attach_failure.h"

#include <unistd.h>

#include <cstdlib>

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

bool is_here(const std::string& shell) {
  return std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) == 0;
}

std::string printed_by(const std::string& shell, const std::string& word) {
  return run_here({shell, "-c", "printf '%s.' " + shell_quote(word)});
}

}  // namespace

TEST_CASE("every shell here reads a quoted word back as it was") {
  for (const std::string shell : {"sh", "bash", "dash", "zsh", "fish"}) {
    if (!is_here(shell)) continue;
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
    for (const std::string shell : {"sh", "bash", "dash", "zsh", "fish", "tcsh"}) {
      if (!is_here(shell) || (shell == "tcsh" && name.find('\n') != name.npos)) continue;
      INFO(shell << ": " << name);
      CHECK(run_here({shell, "-c", command}) ==
            "agent.attach.--home." + home + ".--controller.c1.--node." + name + ".");
    }
  }
}

TEST_CASE("a program that is missing, empty or not executable is asked for in every shell") {
  TemporaryFolder folder;
  ::setenv("HOME", folder.path().c_str(), 1);
  const std::string binary = (folder.path() / "my muster/bin/muster-b1").string();
  const std::string command = attach_command({"", "b1", "c1", "~/my muster"}, NodeId{"n"});
  const auto is_asked_for = [&] {
    for (const std::string shell : {"sh", "bash", "dash", "zsh", "fish", "tcsh"}) {
      if (!is_here(shell)) continue;
      INFO(shell);
      CHECK_THAT(run_here({shell, "-c", command}),
                 ContainsSubstring("MUSTER-SHELL\nMUSTER-PUSH Linux "));
    }
  };
  is_asked_for();
  std::filesystem::create_directories(folder.path() / "my muster/bin");
  write_text(binary, "#!/bin/sh\n");
  is_asked_for();
  write_text(binary, "");
  std::filesystem::permissions(binary, std::filesystem::perms(0755));
  is_asked_for();
}

TEST_CASE("a program of another user is neither run nor replaced") {
  if (::geteuid() != 0) return;
  TemporaryFolder folder;
  const std::string home = (folder.path() / "home").string();
  const std::string binary = home + "/bin/muster-b1";
  std::filesystem::create_directories(home + "/bin");
  write_text(binary, "#!/bin/sh\necho stranger\n");
  std::filesystem::permissions(binary, std::filesystem::perms(0755));
  const std::string attach =
      "( " + attach_command({"", "b1", "c1", home}, NodeId{"n"}) + " ) 2>&1; true";
  const std::string push =
      "echo | ( " + push_command({"", "b1", "c1", home}, 1) + " ) 2>&1; true";
  for (const std::string& strange : {binary, home + "/bin"}) {
    REQUIRE(::chown(strange.c_str(), 65534, 65534) == 0);
    CHECK_THAT(run_here({"sh", "-c", attach}), ContainsSubstring("belongs to another user"));
    REQUIRE(::chown(binary.c_str(), 0, 0) == 0);
  }
  CHECK_THAT(run_here({"sh", "-c", push}), ContainsSubstring("belongs to another user"));
  CHECK_THAT(read_text(binary), ContainsSubstring("stranger"));
}

TEST_CASE("copies to one home at the same time do not mix, and old remains are cleared away") {
  TemporaryFolder folder;
  const std::string home = (folder.path() / "home").string();
  std::filesystem::create_directories(home + "/bin");
  write_text(home + "/bin/.tmp.dead", "half");
  run_here({"touch", "-d", "3 days ago", home + "/bin/.tmp.dead"});
  const std::string push = push_command({"", "b1", "c1", home}, 1'000'000);
  std::string script;
  for (const std::string letter : {"a", "b", "c", "d"}) {
    script += "head -c 1000000 /dev/zero | tr '\\0' " + letter + " | ( " + push + " ) & ";
  }
  run_here({"sh", "-c", script + "wait"});
  const std::string copied = read_text(home + "/bin/muster-b1");
  CHECK(copied == std::string(1'000'000, copied.empty() ? '?' : copied[0]));
  CHECK(run_here({"ls", "-A", home + "/bin"}) == "muster-b1\n");
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
