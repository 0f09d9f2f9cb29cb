#include <unistd.h>

#include <filesystem>

#include "cli/verbs/verbs.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

Record ended(const std::string& node, int code, const std::string& line) {
  RankExited exited;
  exited.node = NodeId{node};
  exited.status.code = code;
  exited.last_lines = {"before", line};
  return Record{from_ms(1), Observation{exited}};
}

std::string here(const std::string& program) {
  if (program == "torchrun") return "/venv/bin/torchrun";
  return program == "/venv/bin/python" ? program : "";
}

std::string said(const std::vector<Record>& records) {
  return missing_program_text(records, here);
}

}  // namespace

TEST_CASE("a program that is here and not on the nodes is named with the nodes and the cure") {
  const std::string line = "bash: line 1: /venv/bin/python: No such file or directory";
  CHECK(said({ended("h01", 127, line), ended("h02", 127, line)}) ==
        "/venv/bin/python is not there on h01, h02; it is here: put it on a shared folder or into "
        "`code`");
  CHECK(said({ended("h01", 127, "bash: line 1: torchrun: command not found")}) ==
        "torchrun is not there on h01; it is here (/venv/bin/torchrun): put it on a shared folder "
        "or into `code`");
  CHECK_THAT(said({ended("h01", 126,
                         "bash: /venv/bin/python: cannot execute: required file not "
                         "found")}),
             ContainsSubstring("/venv/bin/python is not there on h01"));
}

TEST_CASE("a program that is a link is told with what it leads to") {
  const Folder folder;
  const std::string python = (folder.path() / "python").string();
  REQUIRE(::symlink("/bin/sh", python.c_str()) == 0);
  const std::string line = "bash: line 1: " + python + ": No such file or directory";
  CHECK_THAT(missing_program_text({ended("h01", 127, line)}, find_here),
             ContainsSubstring("it is here, a link to " +
                               std::filesystem::canonical("/bin/sh").string() +
                               ", which has to be there too: put it"));
}

TEST_CASE("a relative path in a job without code is told how its file gets to the nodes") {
  const Record failed = ended("h01", 127, "bash: line 1: ./train.sh: No such file or directory");
  JobSubmitted job;
  const auto submitted = [&] { return Record{from_ms(0), Observation{job}}; };
  CHECK(said({submitted(), failed}) ==
        "./train.sh is not there on h01: without `code` no file of yours gets there; set "
        "`code: .` in the job file");
  job.spec.code = "/home/ml/src";
  CHECK(said({submitted(), failed}) == "");
}

TEST_CASE("a program that is nowhere, or a rank that failed otherwise, is not blamed on a node") {
  CHECK(said({ended("h01", 127, "bash: line 1: nonsense: command not found")}) == "");
  CHECK(said({ended("h01", 1, "cat: /venv/bin/python: No such file or directory")}) == "");
  CHECK(said({ended("h01", 127, "no such words")}) == "");
  AttemptPlaced again;
  again.attempt = AttemptId{1};
  CHECK(said({ended("h01", 127, "bash: line 1: torchrun: command not found"),
              Record{from_ms(2), Decision{again}}}) == "");
}

TEST_CASE("programs of this host are found by path and by name") {
  CHECK(find_here("/bin/sh") == "/bin/sh");
  CHECK(find_here("/bin/absent-program") == "");
  CHECK(find_here("sh").ends_with("/sh"));
  CHECK(find_here("absent-program") == "");
  CHECK(find_here("bin/sh") == "");
}
