#include "runtime/protocol/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

namespace muster {

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char magic[8] = {'M', 'U', 'S', 'T', 'R', 'L', 'S', '1'};

}  // namespace

struct Lease::Page {
  char magic[8];
  std::atomic<std::uint64_t> until_us;
};

std::optional<Lease> Lease::map(Descriptor fd, int protection) {
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0 || facts.st_size < static_cast<off_t>(sizeof(Page))) {
    return std::nullopt;
  }
  Mapping memory(sizeof(Page), protection, MAP_SHARED, fd.get());
  if (memory.get() == nullptr) return std::nullopt;
  return Lease(std::move(fd), std::move(memory));
}

std::optional<Lease> Lease::create() {
  static_assert(sizeof(Page) == 16 && decltype(Page::until_us)::is_always_lock_free);
  Descriptor fd(::memfd_create("muster-lease", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), sizeof(Page)) != 0) return std::nullopt;
  auto lease = map(std::move(fd), PROT_READ | PROT_WRITE);
  if (lease) std::memcpy(lease->page().magic, magic, sizeof magic);
  return lease;
}

std::optional<Lease> Lease::open(const std::string& path) {
  auto lease = map(Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)), PROT_READ);
  // The number of a dead agent may be another program's.
  if (lease && std::memcmp(lease->page().magic, magic, sizeof magic) != 0) return std::nullopt;
  return lease;
}

void Lease::grant(BootTime until) {
  page().until_us.store(static_cast<std::uint64_t>(until.count()));
}

BootTime Lease::until() const {
  return BootTime(static_cast<BootTime::rep>(page().until_us.load()));
}

}  // namespace muster
