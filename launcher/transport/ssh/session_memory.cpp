#include "launcher/transport/ssh/session_memory.h"

#include <cstdlib>

namespace muster {

SessionMemory::~SessionMemory() {
  while (first_.next != &first_) release(first_.next + 1);
}

void* SessionMemory::allocate(std::size_t bytes) {
  auto* header = static_cast<Header*>(std::malloc(sizeof(Header) + bytes));
  if (header == nullptr) return nullptr;
  link(header);
  return header + 1;
}

void* SessionMemory::resize(void* block, std::size_t bytes) {
  if (block == nullptr) return allocate(bytes);
  auto* header = static_cast<Header*>(block) - 1;
  unlink(header);
  auto* moved = static_cast<Header*>(std::realloc(header, sizeof(Header) + bytes));
  link(moved == nullptr ? header : moved);
  return moved == nullptr ? nullptr : moved + 1;
}

void SessionMemory::release(void* block) {
  if (block == nullptr) return;
  auto* header = static_cast<Header*>(block) - 1;
  unlink(header);
  std::free(header);
}

void SessionMemory::link(Header* header) {
  header->next = first_.next;
  header->previous = &first_;
  first_.next->previous = header;
  first_.next = header;
}

void SessionMemory::unlink(Header* header) {
  header->next->previous = header->previous;
  header->previous->next = header->next;
}

}  // namespace muster
