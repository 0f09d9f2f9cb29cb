#include "cli/client/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <string_view>

namespace muster {

namespace {

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::size_t aligned(std::size_t size) {
  return (size + 3) & ~std::size_t{3};
}

// A note segment: header, name, description, each padded to four bytes.
std::string build_id_in(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    notes.remove_prefix(sizeof(header));
    const std::size_t whole = aligned(header.n_namesz) + aligned(header.n_descsz);
    if (whole > notes.size()) return "";
    const std::string_view name = notes.substr(0, header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4)) {
      return hex(notes.substr(aligned(header.n_namesz), header.n_descsz));
    }
    notes.remove_prefix(whole);
  }
  return "";
}

// The first object that the loader reports is the executable itself.
int look_at_executable(dl_phdr_info* info, std::size_t, void* found) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* start = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    auto& id = *static_cast<std::string*>(found);
    if (id.empty()) id = build_id_in({start, segment.p_memsz});
  }
  return 1;
}

}  // namespace

std::string own_build_id() {
  std::string id;
  ::dl_iterate_phdr(look_at_executable, &id);
  return id;
}

}  // namespace muster
