#include "launcher/os/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"

using namespace muster;
namespace fs = std::filesystem;

namespace {

bool has_flag(const Fd& file, int command, int flag) {
  return (::fcntl(file.get(), command) & flag) != 0;
}

std::string numbered(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

template <class End>
ExitStatus status_of_child(const End& end) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    end();
    ::_exit(99);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return exit_status_of(status);
}

}  // namespace

TEST_CASE("who looks at a tail never waits, the command does, and both ends are their owner's") {
  const auto pipe = tail_pipe();
  REQUIRE(pipe);
  CHECK(has_flag(pipe->read_end, F_GETFL, O_NONBLOCK));
  CHECK_FALSE(has_flag(pipe->write_end, F_GETFL, O_NONBLOCK));
  CHECK(has_flag(pipe->read_end, F_GETFD, FD_CLOEXEC));
  CHECK(has_flag(pipe->write_end, F_GETFD, FD_CLOEXEC));
  std::string text = "before ";
  read_tail(pipe->read_end.get(), text);  // nothing is there
  CHECK(text == "before ");
  REQUIRE(write_all(pipe->write_end.get(), "said"));
  read_tail(pipe->read_end.get(), text);
  CHECK(text == "before said");
}

TEST_CASE("of a long output the last 8 KiB are kept, whoever wrote when") {
  auto pipe = tail_pipe();
  REQUIRE(pipe);
  const std::string all = numbered(0, 9000);
  std::string text;
  for (std::size_t at = 0; at < all.size(); at += 5000) {
    REQUIRE(write_all(pipe->write_end.get(), all.substr(at, 5000)));
    read_tail(pipe->read_end.get(), text);
    CHECK(text.size() <= 2 * 8192);
  }
  CHECK(all.ends_with(text));
  CHECK(text.size() >= 8192);
}

TEST_CASE("as much as a pipe holds is read at once, and no more of one that writes on") {
  auto pipe = tail_pipe();
  REQUIRE(pipe);
  REQUIRE(write_all(pipe->write_end.get(), std::string(65'536, 'x')));
  std::string text;
  read_tail(pipe->read_end.get(), text);
  char byte = 0;
  CHECK(::read(pipe->read_end.get(), &byte, 1) < 0);
  pipe->write_end.reset();
  const std::string before = text;
  read_tail(pipe->read_end.get(), text);  // its end
  CHECK(text == before);
}

TEST_CASE("a child has exited with a code or was killed by a signal") {
  const ExitStatus code = status_of_child([] { ::_exit(7); });
  CHECK(code.code == 7);
  CHECK(code.signal == 0);
  CHECK_FALSE(code.ok());
  const ExitStatus killed = status_of_child([] { ::raise(SIGKILL); });
  CHECK(killed.code == 0);
  CHECK(killed.signal == SIGKILL);
  CHECK_FALSE(killed.core_dumped);
  CHECK(status_of_child([] { ::_exit(0); }).ok());
}

TEST_CASE("a process knows the file it was started from") {
  CHECK(fs::equivalent(self_exe(), "/proc/self/exe"));
  CHECK(self_exe().starts_with("/"));
}

// In the child this program runs again, from a copy that goes away meanwhile.
TEST_CASE("a program whose file was replaced still has itself", "[.child]") {
  if (const char* copy = std::getenv("MUSTER_TEST_COPY"); copy != nullptr) fs::remove(copy);
  CHECK(fs::equivalent(self_exe(), "/proc/self/exe"));
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
