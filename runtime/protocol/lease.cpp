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

std::optional<Lease> Lease::map(int fd, int protection) {
  struct stat facts {};
  void* page = MAP_FAILED;
  if (::fstat(fd, &facts) == 0 && facts.st_size >= static_cast<off_t>(sizeof(Page))) {
    page = ::mmap(nullptr, sizeof(Page), protection, MAP_SHARED, fd, 0);
  }
  if (page == MAP_FAILED) {
    ::close(fd);
    return std::nullopt;
  }
  return Lease(fd, static_cast<Page*>(page));
}

std::optional<Lease> Lease::create() {
  static_assert(sizeof(Page) == 16 && decltype(Page::until_us)::is_always_lock_free);
  const int fd = ::memfd_create("muster-lease", MFD_CLOEXEC);
  if (fd < 0) return std::nullopt;
  if (::ftruncate(fd, sizeof(Page)) != 0) {
    ::close(fd);
    return std::nullopt;
  }
  auto lease = map(fd, PROT_READ | PROT_WRITE);
  if (lease) std::memcpy(lease->page_->magic, magic, sizeof magic);
  return lease;
}

std::optional<Lease> Lease::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  auto lease = map(fd, PROT_READ);
  // The number of a dead agent may be another program's.
  if (lease && std::memcmp(lease->page_->magic, magic, sizeof magic) != 0) return std::nullopt;
  return lease;
}

Lease::Lease(Lease&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), page_(std::exchange(other.page_, nullptr)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(page_, other.page_);
  return *this;
}

Lease::~Lease() {
  if (page_ != nullptr) ::munmap(page_, sizeof(Page));
  if (fd_ >= 0) ::close(fd_);
}

void Lease::grant(BootTime until) {
  page_->until_us.store(static_cast<std::uint64_t>(until.count()));
}

BootTime Lease::until() const {
  return BootTime(static_cast<BootTime::rep>(page_->until_us.load()));
}

std::string Lease::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
}

}  // namespace muster
