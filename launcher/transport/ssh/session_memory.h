// The memory of one libssh2 session, given back as a whole at its end: libssh2 1.10 loses some
// blocks when a session is dropped in the middle of a key exchange, as busy hosts make it do.
// Private to launcher/transport; one thread.
#pragma once

#include <cstddef>

namespace muster {

class SessionMemory {
 public:
  SessionMemory() { first_.next = first_.previous = &first_; }
  SessionMemory(const SessionMemory&) = delete;
  ~SessionMemory();

  void* allocate(std::size_t bytes);
  void* resize(void* block, std::size_t bytes);
  void release(void* block);

 private:
  struct alignas(std::max_align_t) Header {  // in front of every block
    Header* next;
    Header* previous;
  };

  void link(Header* header);
  static void unlink(Header* header);

  Header first_;  // of a ring
};

}  // namespace muster
