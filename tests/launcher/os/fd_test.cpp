#include "launcher/os/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tests/catch.h"

namespace muster {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

int open_null() { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }

TEST_CASE("a descriptor is closed with its last owner and not before") {
  const int number = open_null();
  Fd kept;
  {
    Fd first(number);
    kept = std::move(first);
  }
  CHECK(is_open(number));
  kept = Fd();
  CHECK_FALSE(is_open(number));
}

TEST_CASE("an owner that gets another descriptor closes the one it had") {
  const int old_number = open_null();
  Fd owner(old_number);
  const int new_number = open_null();
  owner = Fd(new_number);
  CHECK_FALSE(is_open(old_number));
  CHECK(is_open(new_number));
}

TEST_CASE("a released descriptor stays open and the owner is empty") {
  Fd owner(open_null());
  const Fd other(owner.release());
  CHECK_FALSE(owner);
  CHECK(is_open(other.get()));
}

TEST_CASE("descriptor 0 is closed as any other") {
  const int usual_input = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  ::close(0);
  Fd owner(open_null());
  const int number = owner.get();
  owner.reset();
  const bool is_closed = !is_open(0);
  if (usual_input >= 0) {
    ::dup2(usual_input, 0);
    ::close(usual_input);
  }
  CHECK(number == 0);
  CHECK(is_closed);
  CHECK_FALSE(owner);
  owner.reset();  // of nothing
}

TEST_CASE("closing keeps the errno of the call that failed before") {
  Fd owner(open_null());
  errno = ENOSPC;
  owner.reset();
  CHECK(errno == ENOSPC);
}

TEST_CASE("write_all goes on after a part: a full pipe and a slow reader lose nothing") {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  Fd reader(pipe[0]), writer(pipe[1]);
  const std::string sent(1 << 20, 'x');
  std::size_t received = 0;
  std::thread slow([&] {
    char buffer[1000];
    for (ssize_t got = 0; (got = ::read(reader.get(), buffer, sizeof buffer)) > 0;) {
      received += static_cast<std::size_t>(got);
    }
  });
  const bool wrote = write_all(writer.get(), sent);
  writer.reset();
  slow.join();
  CHECK(wrote);
  CHECK(received == sent.size());
}

TEST_CASE("read_at returns fewer bytes only at the end of the file") {
  char path[] = "/tmp/muster-fd-XXXXXX";
  const Fd file(::mkstemp(path));
  ::unlink(path);
  REQUIRE(write_all(file.get(), "0123456789"));
  std::string bytes;
  CHECK(read_at(file.get(), 2, 4, bytes));
  CHECK(bytes == "2345");
  CHECK(read_at(file.get(), 8, 4, bytes));
  CHECK(bytes == "89");
  CHECK_FALSE(read_at(-1, 0, 4, bytes));
}

}  // namespace
}  // namespace muster
