// The helper of a node reader as a program of its own, and helpers that are ill.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "health/read/helper_process.h"
#include "health/read/node_reader.h"
#include "health/read/reader_protocol.h"

using namespace muster;

namespace {

constexpr int owner = 3;

bool hear_command() {
  std::array<char, 65536> part{};
  return ::recv(owner, part.data(), part.size(), 0) > 0;
}

void say(std::string_view bytes) {
  static auto stream = SharedStream::open(owner + 1);
  const auto wake = [] {
    if (::send(owner, "!", 1, MSG_NOSIGNAL) <= 0) ::_exit(0);
  };
  stream->write(bytes, wake);
  wake();
}

std::string noise(unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(4096, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  // Every other time the length is sane and what follows is not.
  if (seed % 2 == 0) bytes.replace(0, 4, std::string("\x40\0\0\0", 4));
  return bytes;
}

[[noreturn]] void flood() {
  const std::string file = encode(FileIsRead{"/f", {std::string(200'000, 'x'), {}, false}});
  while (true) say(file);
}

// More than there is room for, and then the other side's count.
void scribble() {
  constexpr std::size_t size = 4096;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, owner + 1, 0);
  if (memory != MAP_FAILED) std::memset(memory, 0x7f, size);
  static_cast<void>(::send(owner, "!", 1, MSG_NOSIGNAL));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  if (way.empty()) return serve_node_reads(owner);
  if (way == "leave") return 3;
  if (way == "silent") {
    while (hear_command()) {
    }
    return 0;
  }
  while (hear_command()) {
    if (way == "noise") say(noise(static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10))));
    if (way == "lie") say(encode(ReadOver{}));
    if (way == "half") say(encode(FileBegins{"/a"}).substr(0, 6));
    if (way == "flood") flood();
    if (way == "scribble") scribble();
  }
  return 0;
}
