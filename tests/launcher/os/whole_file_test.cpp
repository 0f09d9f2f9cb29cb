#include "launcher/os/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "launcher/os/fd.h"
#include "tests/catch.h"

using namespace muster;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "muster-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
  fs::path path;
};

std::string content(const fs::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  REQUIRE(read_whole(file.get(), text));
  return text;
}

}  // namespace

TEST_CASE("a replaced file has the new content, the mode, and nothing beside it") {
  const Folder folder;
  const fs::path path = folder.path / "file";
  for (const Durable durable : {Durable::in_cache, Durable::on_disk}) {
    const std::string bytes(200'000, durable == Durable::on_disk ? 'd' : 'c');
    REQUIRE(replace_file(path, bytes, 0640, durable));
    CHECK(content(path) == bytes);
  }
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0640);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file that cannot be replaced is as it was, and errno says why") {
  const Folder folder;
  const fs::path path = folder.path / "file";
  fs::create_directories(path / "full");  // no file can take a directory's name
  CHECK_FALSE(replace_file(path, "new", 0600, Durable::in_cache));
  CHECK(errno == EISDIR);
  CHECK(folder.entries() == 1);
  CHECK_FALSE(replace_file(folder.path / "away" / "file", "new", 0600, Durable::in_cache));
  CHECK(errno == ENOENT);
}

TEST_CASE("writers of one file at the same time do not mix") {
  const Folder folder;
  const fs::path path = folder.path / "file";
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&path, letter] {
      const std::string bytes(50'000, letter);
      for (int i = 0; i < 50; ++i) replace_file(path, bytes, 0600, Durable::in_cache);
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string text = content(path);
  CHECK(text == std::string(50'000, text[0]));
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file of the system that says it has no size is read whole") {
  CHECK(content("/proc/self/status").find("Pid:") != std::string::npos);
}

TEST_CASE("what cannot be read has no text") {
  const Folder folder;
  CHECK(text_of_file(folder.path).empty());
  CHECK(text_of_file(folder.path / "nothing").empty());
  REQUIRE(replace_file(folder.path / "file", "text", 0600, Durable::in_cache));
  CHECK(text_of_file(folder.path / "file") == "text");
}
