#include "launcher/os/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"

using namespace muster;
namespace fs = std::filesystem;

TEST_CASE("a process knows the file it was started from") {
  CHECK(fs::equivalent(own_program(), "/proc/self/exe"));
  CHECK(own_program().starts_with("/"));
}

// In the child this program runs again, from a copy that goes away meanwhile.
TEST_CASE("a program whose file was replaced still has itself", "[.child]") {
  if (const char* copy = std::getenv("MUSTER_TEST_COPY"); copy != nullptr) fs::remove(copy);
  CHECK(fs::equivalent(own_program(), "/proc/self/exe"));
}

TEST_CASE("a program whose file is gone can still be started by its name") {
  std::string copy = (fs::temp_directory_path() / "muster-copy-XXXXXX").string();
  const int file = ::mkstemp(copy.data());
  REQUIRE(file >= 0);
  ::close(file);
  fs::copy_file("/proc/self/exe", copy, fs::copy_options::overwrite_existing);
  fs::permissions(copy, fs::perms::owner_all);
  const std::string command = "MUSTER_TEST_COPY=" + copy + " " + copy +
                              " 'a program whose file was replaced still has itself' >/dev/null";
  CHECK(std::system(command.c_str()) == 0);
  CHECK_FALSE(fs::exists(copy));
}
