#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

using namespace muster;

namespace {

void make_socket(const std::filesystem::path& path) {
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

}  // namespace

TEST_CASE("what is no file is refused at once, and named") {
  const Scratch place;
  const auto at = [&place](const char* name) { return (place.path() / name).string(); };
  REQUIRE(::mkfifo(at("pipe").c_str(), 0600) == 0);
  make_socket(at("socket"));
  const auto why = [](const std::string& path) {
    const auto file = open_regular_file(path);
    REQUIRE_FALSE(file);
    return file.error().message;
  };
  CHECK(why(at("pipe")) == "cannot read " + at("pipe") + ": it is a named pipe, not a file");
  CHECK_THAT(why(at("socket")), ContainsSubstring("a socket"));
  CHECK_THAT(why("/dev/zero"), ContainsSubstring("a device"));
  CHECK_THAT(why(place.path().string()), ContainsSubstring("a directory"));
  CHECK(errno == EISDIR);
  CHECK_THAT(why(at("absent")), ContainsSubstring("No such file"));
  CHECK(errno == ENOENT);
  CHECK(text_of_file(at("pipe")).empty());
  CHECK(text_of_file("/dev/zero").empty());
  REQUIRE(replace_file(at("file"), "text", 0600, Durable::in_cache));
  CHECK(open_regular_file(at("file")));
}

TEST_CASE("a lock has one holder, and is free when that goes") {
  const Scratch place;
  const auto path = place.path() / "lock";
  CHECK_FALSE(is_locked(path));
  CHECK_FALSE(std::filesystem::exists(path));  // looking makes nothing
  {
    auto lock = take_lock_file(path);
    REQUIRE((lock && *lock));
    CHECK(is_locked(path));
    const auto second = take_lock_file(path);
    REQUIRE(second);
    CHECK_FALSE(*second);
    CHECK_FALSE(is_unlinked(**lock));
    std::filesystem::remove(path);
    CHECK(is_unlinked(**lock));
  }
  CHECK_FALSE(is_locked(path));
  CHECK_FALSE(take_lock_file(place.path() / "absent" / "lock"));
}
